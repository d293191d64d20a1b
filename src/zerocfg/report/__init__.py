"""One self-contained HTML page about a run or a sweep, from the files in its folder."""
