//! The red team's list, as far as a rule decides and no process: each attempt, and the test beside the rule that fails
//! when it succeeds.

use std::path::Path;

/// Each attempt, the file from the repository's top, and the test in it.
const LIST: [(&str, &str, &str); 22] = [
    (
        "orders behind what a question shows",
        "operator/gateway/src/parts/messages.rs",
        "the_question_has_all_of_every_request",
    ),
    (
        "items that no question names",
        "operator/gateway/src/roadmap/messages/tests.rs",
        "a_question_records_what_it_names_and_attaches_the_whole",
    ),
    (
        "the rest of a long roadmap",
        "operator/gateway/slack/src/questions/roadmap.rs",
        "a_yes_to_some_leaves_the_others_to_be_asked_about",
    ),
    (
        "words that Markdown hides",
        "operator/gateway/slack/src/text/markdown/tests.rs",
        "what_a_reader_of_markdown_would_not_see_is_shown",
    ),
    (
        "other words under a question's key",
        "operator/gateway/slack/src/outbound/asking/whole.rs",
        "other_words_are_another_question",
    ),
    (
        "a plan in a Thread of one's own",
        "operator/gateway/src/roadmap/origin.rs",
        "a_plan_is_approved_only_in_the_thread_that_was_made_from_the_approved_text",
    ),
    (
        "a yes of somebody who left",
        "operator/gateway/slack/src/people/access.rs",
        "full_members_decide_and_others_if_they_are_named_and_bots_never",
    ),
    (
        "an account that is deactivated",
        "operator/gateway/slack/src/people/person.rs",
        "only_who_is_wholly_of_the_workspace_is_a_member",
    ),
    (
        "a yes for the thread of somebody who left",
        "operator/gateway/slack/src/questions/action/tests.rs",
        "a_yes_for_the_thread_ends_with_its_givers_membership",
    ),
    (
        "a change of what steers roles",
        "operator/gateway/src/steering.rs",
        "files_that_steer_roles_are_named_and_no_others",
    ),
    (
        "the same in a merge train",
        "operator/gateway/src/train/messages.rs",
        "people_see_what_they_decide_about",
    ),
    (
        "Git without a wall",
        "operator/gateway/git/src/confine.rs",
        "git_without_landlock_runs_only_where_the_flag_says_so",
    ),
    (
        "metadata services",
        "operator/gateway/core/src/dial/address.rs",
        "no_configuration_opens_the_metadata_service_of_a_cloud",
    ),
    (
        "a pattern that blanks the log",
        "crds/redact/src/lib.rs",
        "a_pattern_that_blanks_everything_is_refused_with_its_place",
    ),
    (
        "patterns that push out another Repo's",
        "crds/redact/src/log.rs",
        "what_a_repo_wants_masked_is_masked_too",
    ),
    (
        "rights to create",
        "tests/product/tests/it/gateway/rights.rs",
        "a_gateway_that_was_taken_over_leads_to_no_other_account",
    ),
    (
        "dependencies that were not checked",
        "tests/tests/house/unchecked.rs",
        "dependencies_that_were_not_checked_are_red_in_ci",
    ),
    ("a node's users", "agent/src/sandbox/users.rs", "the_kernel_says_whose_users_commands_have"),
    (
        "manifests that a platform refuses",
        "tests/product/tests/it/scan.rs",
        "manifests_pass_a_scan_with_nothing_but_what_has_a_reason",
    ),
    (
        "commits taken off a branch",
        "operator/gateway/git/src/removed/tests.rs",
        "what_is_gone_is_known_by_its_id_and_by_its_change",
    ),
    (
        "a change of what a file that steers roles leads to",
        "operator/gateway/git/src/steering/leads.rs",
        "what_links_and_references_lead_to_steers_roles_too",
    ),
    (
        "a yes whose giver may have left",
        "tests/product/tests/it/gateway/mcp_trust.rs",
        "a_yes_waits_while_it_is_not_known_whether_its_giver_is_still_there",
    ),
];

#[test]
fn every_rule_of_the_list_has_its_test() {
    let top = Path::new(codebutler_testbed::FOLDER).join("..");
    for (what, file, name) in LIST {
        let text = std::fs::read_to_string(top.join(file)).unwrap();
        let (before, _) = text
            .split_once(&format!("fn {name}()"))
            .unwrap_or_else(|| panic!("{what}: {file} has no test {name}"));
        let last = before.trim_end_matches("async ").trim_end().lines().next_back().unwrap();
        assert!(last.trim().starts_with("#[t"), "{what}: {name} is no test: {last}");
    }
}
