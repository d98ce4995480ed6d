//! The red team's second list: amounts that hold in sum, and names that are no identity. Each kind of attempt with
//! the test that fails when one succeeds; most are beside what they attack. Here are those that need the whole
//! gateway.

use std::path::Path;

use codebutler_crds::{Repo, Thread, names};
use codebutler_testbed::models::ModelScript;
use serde_json::json;

use super::cluster::ACCOUNT;
use super::{AUDIENCE, World, eventually};

/// Each attempt, the file below the repository's root, and the test in it.
const LIST: [(&str, &str, &str); 45] = [
    (
        "many commits that each change much",
        "operator/gateway/git/src/quarantine/tests.rs",
        "a_small_push_of_many_commits_that_each_change_much_is_refused",
    ),
    (
        "many commits with long messages",
        "operator/gateway/git/src/quarantine/tests.rs",
        "commits_with_long_messages_are_counted_together",
    ),
    (
        "the same change again and again",
        "operator/gateway/git/src/quarantine/tests.rs",
        "commits_that_change_the_same_share_what_they_change",
    ),
    (
        "a guarded file as accepted, and changed",
        "operator/gateway/git/src/quarantine/tests.rs",
        "a_guarded_file_is_compared_by_its_path_alone",
    ),
    (
        "every amount of a push",
        "operator/gateway/git/src/quarantine/budget.rs",
        "amounts_are_added_up_and_the_refusal_says_what_to_split",
    ),
    (
        "a list of 60,000 in one event",
        "operator/gateway/core/src/history/mask.rs",
        "a_list_and_what_is_written_of_it_have_bounds",
    ),
    (
        "a long line in front of the writer",
        "operator/gateway/core/src/history/writer/tests.rs",
        "a_line_that_is_too_long_is_passed_over_and_what_comes_next_is_written",
    ),
    (
        "a history that stops the writer",
        "operator/gateway/core/src/history/writer/tests.rs",
        "a_history_that_can_not_be_gone_on_with_holds_up_no_other",
    ),
    (
        "journals without end",
        "operator/gateway/core/src/history/writer/tests.rs",
        "a_role_has_so_many_journals_and_no_more",
    ),
    (
        "a volume that is filled",
        "operator/gateway/core/src/history/writer/tests.rs",
        "no_history_grows_beyond_the_space_of_all",
    ),
    (
        "the highest number of a journal",
        "operator/history/src/log.rs",
        "the_highest_number_there_is_stops_nothing",
    ),
    (
        "a long line in front of readers",
        "operator/history/src/index.rs",
        "what_stands_behind_a_long_line_is_found_and_the_long_one_is_a_gap",
    ),
    (
        "lines of every length",
        "operator/history/src/lines.rs",
        "lines_of_every_length_are_gone_through_and_long_ones_are_named",
    ),
    (
        "words hidden behind a long line",
        "operator/history/src/forget.rs",
        "words_in_and_behind_a_long_line_go_too",
    ),
    (
        "a flood of history readings",
        "operator/gateway/core/src/history/reads.rs",
        "a_flood_of_readings_takes_a_few_places_and_what_is_known_is_kept",
    ),
    (
        "the history of a name, as an agent",
        "operator/gateway/core/src/history/reads.rs",
        "a_thread_reads_nothing_of_another_one_of_its_name",
    ),
    (
        "the history of a name, on a page",
        "operator/pages/src/summary/tests.rs",
        "a_thread_of_the_same_name_has_a_page_of_its_own",
    ),
    (
        "a history in two channels",
        "operator/pages/src/summary/tests.rs",
        "every_channel_that_a_thread_was_opened_in_is_known",
    ),
    (
        "a page by one of its channels",
        "tests/product/tests/it/signing_in.rs",
        "a_page_is_for_who_is_in_every_channel_that_its_thread_was_opened_in",
    ),
    (
        "a name that is given again",
        "operator/gateway/core/src/history/writer/tests.rs",
        "a_thread_of_the_same_name_begins_anew_and_the_one_before_adds_nothing",
    ),
    (
        "an agent's word for which Thread it is",
        "operator/history/src/index.rs",
        "a_thread_of_the_same_name_has_lines_of_its_own",
    ),
    (
        "info/refs without a place",
        "tests/product/tests/it/gateway/redteam_bounds.rs",
        "asking_what_there_is_takes_a_place_like_all_that_runs_git",
    ),
    (
        "bodies that stall",
        "operator/gateway/core/src/extract.rs",
        "bodies_that_stall_take_a_share_and_end_and_others_are_taken",
    ),
    (
        "bodies of no length",
        "operator/gateway/core/src/extract.rs",
        "a_body_that_does_not_say_its_length_takes_room_as_it_comes",
    ),
    (
        "bodies of many threads",
        "operator/gateway/core/src/bodies.rs",
        "a_thread_and_a_repo_have_their_shares_and_others_have_room",
    ),
    ("bodies of all", "operator/gateway/core/src/bodies.rs", "what_all_take_together_has_a_bound"),
    (
        "slow heads at the pages",
        "operator/gateway/src/pages/port.rs",
        "who_asks_for_nothing_does_not_stay",
    ),
    (
        "answers that are not taken",
        "operator/gateway/src/pages/port.rs",
        "who_takes_nothing_does_not_stay",
    ),
    (
        "connections to the pages",
        "operator/gateway/src/pages/port.rs",
        "connections_are_counted_by_address_and_together",
    ),
    (
        "searches and exports",
        "operator/gateway/src/pages/limits.rs",
        "two_search_at_once_and_each_person_once",
    ),
    (
        "streams of one person",
        "operator/gateway/src/pages/limits.rs",
        "a_person_follows_so_many_pages_and_leaves_room_to_others",
    ),
    (
        "a flow cookie, again",
        "operator/gateway/src/pages/flows.rs",
        "a_flow_is_tried_once_and_a_flood_of_flows_waits",
    ),
    (
        "a copied session",
        "operator/gateway/src/pages/flows.rs",
        "a_session_that_was_signed_out_of_has_ended",
    ),
    (
        "what another Repo read",
        "operator/gateway/slack/src/inbound/files.rs",
        "what_was_read_for_one_repo_is_not_shown_to_another_one_nor_for_long",
    ),
    (
        "a private channel's words by a link",
        "tests/product/tests/it/gateway/redteam_bounds.rs",
        "what_one_repo_read_behind_a_link_is_not_shown_to_another_one",
    ),
    (
        "slow strangers at the deliveries",
        "operator/gateway/src/starts/deliveries/port.rs",
        "a_crowd_of_slow_strangers_is_in_nobodys_way",
    ),
    (
        "who gives way to whom",
        "operator/gateway/src/starts/deliveries/port.rs",
        "who_has_taken_longest_goes_and_who_is_there_stays",
    ),
    (
        "pages made to hurt",
        "operator/gateway/src/web/text.rs",
        "pages_made_to_hurt_are_read_in_time",
    ),
    (
        "ends that close nothing",
        "operator/gateway/src/web/depth.rs",
        "what_only_looks_like_an_end_closes_nothing",
    ),
    (
        "a long page that is not deep",
        "operator/gateway/src/web/depth.rs",
        "an_ordinary_page_is_not_deep_however_long_it_is",
    ),
    (
        "trees that unfold without end",
        "tests/product/tests/it/gateway/redteam_git/packs.rs",
        "a_tree_that_unfolds_without_end_is_refused",
    ),
    (
        "readers of one thread",
        "tests/product/tests/it/gateway/git.rs",
        "a_thread_reads_so_many_at_once_and_is_told_why_no_more",
    ),
    (
        "sign-ins from many addresses",
        "operator/gateway/src/pages/flows.rs",
        "a_crowd_of_addresses_waits_too_and_is_not_remembered_for_long",
    ),
    (
        "a made-up address",
        "operator/gateway/src/pages/visitor.rs",
        "only_trusted_proxies_say_from_where_somebody_comes",
    ),
    (
        "a crowd while the issuer is away",
        "operator/gateway/src/pages/issuer.rs",
        "a_crowd_that_signs_in_asks_an_issuer_once_that_is_away",
    ),
];

#[test]
fn every_bound_of_the_list_has_its_test() {
    let root = Path::new(codebutler_testbed::FOLDER).parent().unwrap();
    for (what, file, name) in LIST {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let (before, _) = text
            .split_once(&format!("fn {name}()"))
            .unwrap_or_else(|| panic!("{what}: {file} has no test {name}"));
        let last = before.trim_end().trim_end_matches("async").trim_end();
        let last = last.lines().next_back().unwrap().trim();
        let is_test = last.starts_with("#[tokio::test") || last == "#[test]";
        assert!(is_test, "{what}: {name} is no test: {last}");
    }
}

#[tokio::test]
async fn asking_what_there_is_takes_a_place_like_all_that_runs_git() {
    let world = World::start(vec![]).await;
    let reading = || {
        // A request that never ends.
        let body =
            reqwest::Body::wrap_stream(futures::stream::pending::<std::io::Result<Vec<u8>>>());
        let request = world.http.post(format!("{}/v1/git/git-upload-pack", world.url)).body(body);
        tokio::spawn(request.bearer_auth(world.token("coder")).send())
    };
    let open: Vec<_> = (0..8).map(|_| reading()).collect();
    for service in ["git-upload-pack", "git-receive-pack"] {
        eventually("the ninth is refused in words", || async {
            let path = format!("/v1/git/info/refs?service={service}");
            let (_, said) = world.get("coder", &path).await;
            said.to_string().contains("this thread has 8 clones or fetches under way")
        })
        .await;
    }
    for one in open {
        one.abort();
    }
    eventually("there is room again", || async {
        let path = "/v1/git/info/refs?service=git-upload-pack";
        let (status, said) = world.get("coder", path).await;
        status == 200 && !said.to_string().contains("under way")
    })
    .await;
}

#[tokio::test]
async fn what_one_repo_read_behind_a_link_is_not_shown_to_another_one() {
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &json!({})).await;
    let (user, bot) = (world.slack.ensure_user("ana"), world.slack.bot_user_id());
    let board = world.slack.create_private_channel("board", &[&user, &bot]);
    let secret = world.slack.post_as(&user, &board, None, "We sell the company.").unwrap();
    let link = format!("{}/archives/{board}/p{}", world.slack.origin(), secret.replace('.', ""));
    // Another Repo, whose own channel that is, follows the link first.
    let team = world.cluster.team().to_owned();
    let mut repo = serde_json::to_value(world.repo().await).unwrap();
    repo["metadata"] = json!({"namespace": team, "name": "board"});
    repo["spec"]["slack"]["channel"] = board.as_str().into();
    repo.as_object_mut().unwrap().remove("status");
    world.cluster.apply(&repo).await;
    let root = world.slack.post_as(&user, &board, None, "What do we do?").unwrap();
    let name = names::thread_name("board", &root.parse().unwrap());
    world
        .cluster
        .apply(&json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"namespace": team, "name": name},
            "spec": {"repo": "board", "slack": {"channel": board, "ts": root}},
        }))
        .await;
    let account = names::service_account("board");
    world
        .cluster
        .apply(&json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": team, "name": account},
        }))
        .await;
    let pod = names::pod_name(&name, "coder");
    let uid = world.cluster.pod(&team, &pod, &account).await;
    let token = world.cluster.token(&team, &account, AUDIENCE, Some((&pod, &uid))).await;
    let asked = world.slack.post_as(&user, &board, Some(&root), &format!("see {link}")).unwrap();
    let status = json!({"roles": {"coder": {"podUID": uid, "admitted": true, "inbox": asked}}});
    world.cluster.patch::<Thread>(&team, &name, &json!({"status": status})).await;
    eventually("the other Repo's caches have it", || async {
        let (status, said) = world.get(&token, "/v1/inbox?wait=20").await;
        status == 200 && said.to_string().contains("We sell")
    })
    .await;

    let here = format!("see {link}");
    let asked = world.slack.post_as(&user, &world.channel, Some(&world.root), &here).unwrap();
    world.patch_thread(&json!({"status": {"roles": {"coder": {"inbox": asked}}}})).await;
    let (status, mail) = world.get("coder", "/v1/inbox?wait=20").await;
    assert_eq!(status, 200, "{mail}");
    let mail = mail.to_string();
    assert!(mail.contains("in a private channel") && !mail.contains("We sell"), "{mail}");
    assert_ne!(account, ACCOUNT);
    assert!(world.cluster.api::<Repo>(&team).get("board").await.is_ok());
}
