//! The task of each role in a Repo, read off the roles' own data: no name means anything here.

use std::borrow::{Borrow, Cow};

use codebutler_crds::{AgentRole, ThreadStatus};

use crate::image_kind::is_image_path;

/// The roles of a Repo, in its order, and what some of them are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepoTeam {
    pub roles: Vec<String>,
    /// Role that carries out what people approve.
    pub implements: Option<String>,
    pub reviews: Option<String>,
    /// Role that asks whether to merge, and decides between others.
    pub leads: Option<String>,
    /// Role that makes images, and brings those that people choose into a pull request.
    pub draws: Option<String>,
}

impl RepoTeam {
    /// Reads the team from a Repo's roles, in its order.
    pub fn of<R: Borrow<AgentRole>>(roles: &[R]) -> Self {
        let all: Vec<&AgentRole> = roles.iter().map(Borrow::borrow).collect();
        let has =
            |role: &AgentRole, tool: &str| role.spec.tools.allow.iter().any(|own| own == tool);
        let name = |role: &AgentRole| role.spec.role.clone();
        let find =
            |fits: &dyn Fn(&AgentRole) -> bool| all.iter().find(|r| fits(r)).map(|r| name(r));
        let planned = |role: &AgentRole| {
            let push = role.spec.push.as_ref();
            push.is_some_and(|push| push.needs_approved_plan && push.paths.is_empty())
        };
        let implements = find(&planned).or_else(|| find(&|role| has(role, "GitPush")));
        let reviews =
            find(&|role| has(role, "GHReview") && Some(&role.spec.role) != implements.as_ref());
        // The first role often may close as well: a role that is there for it comes before.
        let first = all.first().map(|role| name(role));
        let closes = |role: &AgentRole| {
            let other = [&implements, &reviews].iter().all(|o| o.as_ref() != Some(&role.spec.role));
            has(role, "CloseThread") && other
        };
        let leads = find(&|role| closes(role) && Some(&role.spec.role) != first.as_ref())
            .or_else(|| find(&closes));
        let draws = find(&|role| {
            let places = role.spec.push.as_ref().is_some_and(|push| push.planned_images);
            places && has(role, "KeepImage") && has(role, "GHCreatePR")
        });
        let roles = all.iter().map(|role| name(role)).collect();
        Self { roles, implements, reviews, leads, draws }
    }

    /// Carries out a Thread's plan: one that changes nothing but images is for who makes them.
    pub fn implements_plan(&self, status: &ThreadStatus) -> Option<&str> {
        let plan = status.plan.as_deref().zip(status.plan_details.as_deref());
        let details = plan.filter(|(plan, details)| details.plan == plan.ts);
        let of_images = details.is_some_and(|(_, details)| {
            !details.files.is_empty() && details.files.iter().all(|file| is_image_path(file))
        });
        let draws = self.draws.as_deref().filter(|_| of_images);
        draws.or(self.implements.as_deref())
    }

    /// The team as it works on a Thread's plan.
    pub fn for_plan(&self, status: &ThreadStatus) -> Cow<'_, Self> {
        match self.implements_plan(status) {
            own if own == self.implements.as_deref() => Cow::Borrowed(self),
            other => Cow::Owned(Self { implements: other.map(str::to_owned), ..self.clone() }),
        }
    }

    /// Returns the role that takes messages addressed to nobody.
    pub fn first(&self) -> Option<&str> {
        self.roles.first().map(String::as_str)
    }

    pub fn has(&self, role: &str) -> bool {
        self.roles.iter().any(|known| known == role)
    }

    pub fn is_implementer(&self, role: &str) -> bool {
        self.implements.as_deref() == Some(role)
    }

    pub fn is_reviewer(&self, role: &str) -> bool {
        self.reviews.as_deref() == Some(role)
    }

    pub fn is_lead(&self, role: &str) -> bool {
        self.leads.as_deref() == Some(role)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(name: &str, tools: &[&str], push: Option<bool>) -> AgentRole {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole", "metadata": {"name": name},
            "spec": {"role": name, "display": {"name": name, "icon": ":x:"}, "model": {"default": "m"},
                "tools": {"allow": tools},
                "push": push.map(|needs| json!({"needsApprovedPlan": needs}))},
        }))
        .unwrap()
    }

    #[test]
    fn what_a_role_is_for_is_read_off_its_tools() {
        let zed = role("zed", &["CloseThread", "SendMessage"], None);
        let ann = role("ann", &["GitPush", "GHCreatePR"], Some(true));
        let bob = role("bob", &["GHReview"], None);
        let cat = role("cat", &["CloseThread"], None);
        let team = RepoTeam::of(&[&zed, &ann, &bob, &cat]);
        let of = |team: &RepoTeam| [&team.implements, &team.reviews, &team.leads].map(Clone::clone);
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(of(&team), [some("ann"), some("bob"), some("cat")]);
        assert_eq!(team.first(), Some("zed"));
        // Nobody else closes: the first one does.
        assert_eq!(RepoTeam::of(&[&zed, &ann]).leads, some("zed"));
        // One that pushes without a plan implements where nobody needs one.
        let free = role("free", &["GitPush"], Some(false));
        assert_eq!(RepoTeam::of(&[&zed, &free]).implements, some("free"));
        assert_eq!(of(&RepoTeam::of(&[&bob])), [None, some("bob"), None]);
        assert_eq!(of(&RepoTeam::of::<AgentRole>(&[])), [None, None, None]);
    }

    #[test]
    fn a_plan_of_images_alone_is_for_who_makes_them() {
        let coder = role("coder", &["GitPush", "GHCreatePR"], Some(true));
        let mut artist = role("artist", &["KeepImage", "GHCreatePR"], Some(false));
        assert_eq!(RepoTeam::of(&[&coder, &artist]).draws, None, "it may place none");
        artist.spec.push.as_mut().unwrap().planned_images = true;
        let team = RepoTeam::of(&[&coder, &artist]);
        let planned = |files: &[&str], plan: &str| -> ThreadStatus {
            serde_json::from_value(json!({
                "plan": {"ts": "4.000000", "hash": "h", "role": "pm"},
                "planDetails": {"plan": plan, "files": files},
            }))
            .unwrap()
        };
        let works = |status: &ThreadStatus| team.for_plan(status).implements.clone().unwrap();
        assert_eq!(works(&planned(&["public/logo.png", "favicon.ico"], "4.000000")), "artist");
        for files in [&["public/logo.png", "README.md"][..], &[], &["public"]] {
            assert_eq!(works(&planned(files, "4.000000")), "coder", "{files:?}");
        }
        assert_eq!(works(&planned(&["a.png"], "3.000000")), "coder", "of another plan");
        assert_eq!(works(&ThreadStatus::default()), "coder");
        let without = RepoTeam::of(&[&coder]);
        let plan = planned(&["a.png"], "4.000000");
        assert_eq!(without.for_plan(&plan).implements.as_deref(), Some("coder"));
    }
}
