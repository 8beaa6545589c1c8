//! Why a stage gets so many workers, for people.

use super::Stage;
use crate::optimizer::model::filter::News;
use crate::optimizer::model::fit::Fit;
use crate::report::human_rate;

impl Stage {
    pub(super) fn reason(&self, fit: &Fit, next: u16) -> String {
        let (ran, workers) = (self.ran, self.workers);
        let to = if next == ran { format!("staying at {ran} {workers}") } else { format!("{ran} -> {next} {workers}") };
        let each = human_rate(fit.worker_rate());
        let known = if fit.full() > 2.0 * f64::from(ran) {
            format!("{each} each and no end of the capacity in sight")
        } else {
            format!("capacity about {}, {each} each alone", human_rate(fit.capacity()))
        };
        let known = if self.cpu_bound { format!("the processors of this host are busy, {known}") } else { known };
        let percent = 100.0 * self.achieved;
        match self.news {
            News::Expected => format!("{known}: {to}"),
            News::Surprise(_) => format!("{percent:.0} % of what {ran} {workers} should move: measuring again, {to}"),
            News::Changed => format!("the path has changed, {percent:.0} % of what was expected: {known}: {to}"),
            News::Returned => format!("the path is what it was before: {known}: {to}"),
        }
    }
}
