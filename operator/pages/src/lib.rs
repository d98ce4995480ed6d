//! Histories as pages for people: lines in, HTML out. Pure; who serves it and to whom is the gateway's.
//!
//! Every text is untrusted, and escaped by the templates: none of it is ever markup. [`step`] says what a
//! line looks like, [`text`] folds and colours, [`summary`] adds up, [`timeline`] draws, [`page`], [`list`],
//! [`roadmap`] and [`costs`] put them together; [`reply`] is what people write there.

mod budgets;
mod calls;
mod changes;
mod chart;
mod checks;
mod compared;
mod costs;
mod diff;
mod list;
mod moment;
mod now;
mod page;
mod preview;
mod remarks;
mod reply;
mod roadmap;
mod run;
mod standing;
mod step;
mod summary;
mod syntax;
#[cfg(test)]
mod tests;
mod text;
mod timeline;

use std::collections::BTreeMap;

pub use budgets::{BudgetLine, BudgetOwner, BudgetUse, RepoBudgets};
pub use changes::{BranchShown, ChangesPage, render_changes};
pub use compared::find_picture;
pub use costs::render_costs;
pub use diff::{ChangedFile, FilePatch};
pub use list::{ListFilter, ListedThread, render_list};
pub use now::{ThreadNow, WaitCause, WaitNow};
pub use page::{PageVisitor, ThreadPage, one_step, render_added, render_notice, render_thread};
pub use preview::{PagePreview, preview_page};
pub use reply::{
    AskedButton, AskedPart, AskedQuestion, LONGEST_REPLY, PageReplies, render_reply_again,
};
pub use roadmap::{RoadmapPage, render_roadmap, roadmap_table};
pub use step::{StepView, is_on_page};
pub use summary::{CallTotals, MoneyPurpose, RoadmapShown, STATES, ThreadSummary, TimeSpan};
pub use text::{HAPPENED, WATCH};

/// Display names of people, by Slack user id.
pub type UserNames = BTreeMap<String, String>;

/// Style sheet of all pages, as CSS.
pub const STYLE: &str = include_str!("../assets/page.css");
/// The pages' own sign, as SVG.
pub const ICON: &str = include_str!("../assets/icon.svg");
/// Keeps a page up to date; without it, a page is as of its loading.
pub const SCRIPT: &str = include_str!("../assets/page.js");
