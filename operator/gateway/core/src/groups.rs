//! Members of the Slack user groups that Repos name among their people. Whoever reads a Repo from
//! the cache finds them beside the group. A group that nobody could look up has no members: it lets
//! nobody in.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use codebutler_crds::Repo;
use parking_lot::RwLock;

use crate::repo_key::RepoKey;

/// Groups of a Repo that are looked up, and members of one that count.
pub const MOST_GROUPS: usize = 16;
pub const MOST_MEMBERS: usize = 1000;

/// Members of each group.
pub type GroupMembers = BTreeMap<String, Vec<String>>;

/// Cache of group members, by Repo. Clones share it.
#[derive(Clone, Default)]
pub struct UserGroups {
    repos: Arc<RwLock<HashMap<RepoKey, KnownGroups>>>,
}

#[derive(Default)]
struct KnownGroups {
    members: GroupMembers,
    /// The Repo as it was read last, and with its members.
    shown: Option<(Arc<Repo>, Arc<Repo>)>,
}

/// Groups that a Repo names, the first ones.
pub fn named_groups(repo: &Repo) -> impl Iterator<Item = &String> {
    repo.spec.access.users.iter().filter(|name| is_group(name)).take(MOST_GROUPS)
}

fn is_group(name: &str) -> bool {
    name.starts_with('S')
}

impl UserGroups {
    /// The Repo with the members of its groups among its people.
    pub fn expand(&self, repo: Arc<Repo>) -> Arc<Repo> {
        if !repo.spec.access.users.iter().any(|name| is_group(name)) {
            return repo;
        }
        let mut repos = self.repos.write();
        let Some(known) = repos.get_mut(&RepoKey::from(&*repo)) else { return repo };
        if let Some((read, shown)) = &known.shown
            && Arc::ptr_eq(read, &repo)
        {
            return Arc::clone(shown);
        }
        let mut whole = (*repo).clone();
        let members = named_groups(&repo).filter_map(|group| known.members.get(group));
        let members: Vec<String> = members.flatten().cloned().collect();
        whole.spec.access.users.extend(members);
        let whole = Arc::new(whole);
        known.shown = Some((repo, Arc::clone(&whole)));
        whole
    }

    /// Returns the cached groups of a Repo.
    pub fn of(&self, repo: &RepoKey) -> GroupMembers {
        self.repos.read().get(repo).map(|known| known.members.clone()).unwrap_or_default()
    }

    /// Replaces the members of a Repo's groups.
    pub fn learn(&self, repo: RepoKey, members: GroupMembers) {
        let mut repos = self.repos.write();
        let known = repos.entry(repo).or_default();
        if known.members != members {
            (known.members, known.shown) = (members, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn repo(users: &[&str]) -> Arc<Repo> {
        let mut repo = testing::repo();
        repo.spec.access.users = users.iter().map(|user| (*user).to_owned()).collect();
        Arc::new(repo)
    }

    #[test]
    fn members_stand_beside_their_group_and_an_unknown_one_lets_nobody_in() {
        let (groups, named) = (UserGroups::default(), repo(&["U1", "S1", "S2"]));
        let users = |repo: &Arc<Repo>| groups.expand(Arc::clone(repo)).spec.access.users.clone();
        assert_eq!(users(&named), ["U1", "S1", "S2"]);
        assert_eq!(users(&repo(&[])), Vec::<String>::new());
        let key = RepoKey::from(&*named);
        let members = |group: &str, user: &str| (group.to_owned(), vec![user.to_owned()]);
        groups.learn(key.clone(), [members("S1", "U7"), members("S9", "U9")].into());
        assert_eq!(users(&named), ["U1", "S1", "S2", "U7"]);
        assert!(Arc::ptr_eq(&groups.expand(named.clone()), &groups.expand(named.clone())));
        groups.learn(key, [members("S1", "U8")].into());
        assert_eq!(users(&named), ["U1", "S1", "S2", "U8"]);
    }
}
