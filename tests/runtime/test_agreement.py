"""When ranks hear of what another has seen."""

from __future__ import annotations

from zerocfg.runtime.agreement import Agreement, Word


class Wire:
    """The reductions of one rank among others, without the others: what is sent comes back with what the others say."""

    def __init__(self, others: list[Word]) -> None:
        self.sent: list[Word] = []
        self._others = others

    def attach(self, agreement: Agreement) -> Agreement:
        pending: list[Word] = []

        def begin(mine: Word) -> None:
            other = self._others[len(self.sent)]
            self.sent.append(mine)
            pending.append(Word(*map(max, mine.values(), other.values())))
            agreement._pending = (None, None)

        def finish() -> Word:
            agreement._pending = None
            return pending.pop(0)

        agreement._group = object()
        agreement._begin, agreement._finish = begin, finish  # type: ignore[method-assign]
        return agreement


def test_agreement_waits_only_where_steps_are_long() -> None:
    long, short, stop = Word(step_seconds=1.0), Word(step_seconds=0.01), Word(stop=12.0, step_seconds=0.01)
    others = [short, short, stop, short, long, stop, short]
    agreement = Wire(others).attach(Agreement())
    heard = [agreement.exchange(Word(step_seconds=0.01)).stop for _ in others]
    # the first is answered at once, then each a step later; after a long step at once again
    assert heard == [0, 0, 0, 12, 0, 0, 12]
    heard_at_once = Wire([long, long, Word(stop=15.0, step_seconds=1.0)]).attach(Agreement())
    assert [heard_at_once.exchange(Word()).stop for _ in range(3)] == [0, 0, 15]
