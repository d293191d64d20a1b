"""The compiler's passes: pure functions. resolve: RunConfig + facts -> Plan; check: Plan -> Diagnostics; lower: Plan -> what is emitted."""
