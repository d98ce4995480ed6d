//! Finds the Repo of a channel that a message names: by its name, its Git repository's name, or a link into
//! that. Only whole words count, in no code block and no quotation, and only if they name one Repo alone. Pure.

use std::collections::BTreeSet;

use codebutler_slack_text::without_quotes;

use crate::api::channel::RepoChannel;
use crate::text::mrkdwn;

/// Repos of its channel that a message names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedRepos<'a> {
    Nothing,
    One(&'a RepoChannel),
    /// Several Repos: nobody can tell which of them is to be worked on.
    Several,
}

/// Finds the Repos that a message names, in the text as Slack stores it.
pub(super) fn named_repos<'a>(text: &str, sharing: &'a [RepoChannel]) -> NamedRepos<'a> {
    let text = &without_quotes(text);
    let mut found = BTreeSet::new();
    for line in strip_code(text).lines() {
        for word in line.split(|c: char| c.is_whitespace() || "()[]{}<>,;!?\"'`*|".contains(c)) {
            let word = word.trim_start_matches('#').trim_end_matches(['.', ':', '/']);
            found.extend(by_word(&word.to_lowercase(), sharing));
        }
    }
    // Another app's own name leaves its own Repos alone.
    if found.is_empty() {
        found.extend(by_mention(text, sharing));
    }
    match found.into_iter().collect::<Vec<_>>()[..] {
        [] => NamedRepos::Nothing,
        [one] => sharing.get(one).map_or(NamedRepos::Nothing, NamedRepos::One),
        _ => NamedRepos::Several,
    }
}

/// Removes blocks of code, and restores the text as it was typed.
fn strip_code(text: &str) -> String {
    let outside: Vec<&str> = text.split("```").step_by(2).collect();
    mrkdwn::to_text(&outside.join("\n"))
}

/// Indexes in the list of the Repos that a word names. A Repo's own name goes before its repository's.
fn by_word(word: &str, sharing: &[RepoChannel]) -> Vec<usize> {
    let places = |is: &dyn Fn(&RepoChannel) -> bool| -> Vec<usize> {
        let all = sharing.iter().enumerate();
        all.filter(|(_, channel)| is(channel)).map(|(place, _)| place).collect()
    };
    if word.is_empty() {
        return Vec::new();
    }
    if let Some(address) = word.strip_prefix("https://").or(word.strip_prefix("http://")) {
        let within = |git: &str| {
            let rest = address.strip_prefix(git);
            rest.is_some_and(|rest| rest.is_empty() || rest == ".git" || rest.starts_with('/'))
        };
        return places(&|channel| within(&channel.git));
    }
    let own = places(&|channel| {
        channel.repo == word || word.split_once('/') == Some((&channel.namespace, &channel.repo))
    });
    if !own.is_empty() {
        return own;
    }
    places(&|channel| {
        let mut parts = channel.git.rsplitn(3, '/');
        let (name, owner) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        name == word || word.split_once('/') == Some((owner, name))
    })
}

fn by_mention(text: &str, sharing: &[RepoChannel]) -> Vec<usize> {
    let apps: BTreeSet<_> = sharing.iter().filter_map(|c| c.bot_user.as_deref()).collect();
    let said = |app: &&&str| text.contains(&format!("<@{app}>"));
    let mentioned: Vec<&str> = apps.iter().filter(said).copied().collect();
    let [app] = mentioned[..] else { return Vec::new() };
    let all = sharing.iter().enumerate();
    let own: Vec<usize> = all
        .filter(|(_, channel)| channel.bot_user.as_deref() == Some(app))
        .map(|(place, _)| place)
        .collect();
    if own.len() == 1 { own } else { Vec::new() }
}

/// Name of a Repo where it has to be told from the others of its channel.
pub(super) fn channel_label(channel: &RepoChannel, sharing: &[RepoChannel]) -> String {
    let alike = sharing.iter().filter(|other| other.repo == channel.repo).count();
    if alike > 1 { format!("{}/{}", channel.namespace, channel.repo) } else { channel.repo.clone() }
}

/// Normalises the address of a Git repository for comparing links: host, owner and name, in small letters.
pub(crate) fn fold_address(url: &str) -> String {
    let url = url.to_lowercase();
    let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    rest.trim_end_matches('/').trim_end_matches(".git").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(repo: &str, git: &str, bot: &str) -> RepoChannel {
        RepoChannel {
            repo: repo.to_owned(),
            uid: repo.to_owned(),
            git: fold_address(git),
            bot_user: Some(bot.to_owned()),
            ..RepoChannel::test()
        }
    }

    #[test]
    fn only_a_whole_word_that_is_one_repos_names_it() {
        let sharing = [
            channel("shop", "https://github.com/acme/storefront.git", "U0A"),
            channel("shop-api", "https://github.com/acme/shop-api", "U0A"),
            channel("docs", "https://github.com/acme/shop", "U0B"),
        ];
        for (text, expected) in [
            ("Please fix the rounding", "-"),
            ("Please fix the rounding in shop", "shop"),
            ("shop: fix the rounding", "shop"),
            ("Fix `Shop`'s rounding.", "shop"),
            ("*shop-api* returns 500", "shop-api"),
            ("the total in storefront is wrong", "shop"),
            ("acme/storefront is slow", "shop"),
            ("team/shop is slow", "shop"),
            // A Repo's own name goes before the repository of another.
            ("look at acme/shop", "docs"),
            ("see <https://github.com/acme/shop-api/pull/7|the pull request>", "shop-api"),
            ("see <https://github.com/acme/storefront>", "shop"),
            ("see <https://github.com/acme/storefronts>", "-"),
            ("<https://example.org/shop>", "-"),
            ("in shop and shop-api", "several"),
            ("shops are closed, and src/shop/mod.rs is wrong, as is shop.rs", "-"),
            ("```\ncd shop\n```\nfails", "-"),
            ("&gt; shop is broken\nis that so?", "-"),
            ("<@U0B> what is new?", "docs"),
            ("<@U0A> what is new?", "-"),
            ("<@U0B> is shop-api slow?", "shop-api"),
        ] {
            let found = match named_repos(text, &sharing) {
                NamedRepos::Nothing => "-",
                NamedRepos::One(channel) => &channel.repo,
                NamedRepos::Several => "several",
            };
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn repos_of_one_name_are_told_apart_by_their_namespace() {
        let mut sharing =
            [channel("shop", "https://h/a/b", "U0A"), channel("shop", "https://h/c/d", "U0A")];
        sharing[1].namespace = "other".to_owned();
        assert_eq!(channel_label(&sharing[1], &sharing), "other/shop");
        assert_eq!(channel_label(&sharing[0], &sharing[..1]), "shop");
        assert_eq!(named_repos("in shop", &sharing), NamedRepos::Several);
        assert_eq!(named_repos("in other/shop", &sharing), NamedRepos::One(&sharing[1]));
    }
}
