"""Is this machine fit for the run? Each check is one function; the machine that it looks at is an argument."""

from zerocfg.doctor.diagnose import diagnose
from zerocfg.doctor.finding import Finding, Status, worst
from zerocfg.doctor.needs import Needs

__all__ = ["Finding", "Needs", "Status", "diagnose", "worst"]
