//! The red team's list, continued: attempts from inside a pod, and the tests that fail when one succeeds.

use std::path::Path;

/// The attempt, the file below the project's root and the test in it.
const INSIDE: [(&str, &str, &str); 28] = [
    (
        "missing objects",
        "agent/src/toolbox/git/distrust.rs",
        "a_missing_object_is_an_error_and_no_forged_history_is_followed",
    ),
    (
        "no file instead of an error",
        "agent/src/toolbox/git/distrust.rs",
        "what_can_not_be_had_again_is_a_failure_and_never_no_file",
    ),
    (
        "forged parents",
        "agent/src/toolbox/git/distrust.rs",
        "forged_parents_hide_no_work_and_no_file_from_the_plan",
    ),
    (
        "names that are no text",
        "agent/src/toolbox/git/distrust.rs",
        "a_branch_whose_name_is_no_text_stops_nothing",
    ),
    (
        "modes of the toolbox' files",
        "agent/tests/it/inside.rs",
        "modes_that_a_command_changes_are_put_back_and_git_works_on",
    ),
    (
        "modes and attributes of the worktree",
        "agent/tests/it/inside.rs",
        "a_role_that_only_reads_changes_no_mode_and_no_attribute_of_the_worktree",
    ),
    (
        "control files of Git",
        "agent/src/toolbox/git/control/tests.rs",
        "a_file_that_is_not_plain_is_named_before_git_opens_it",
    ),
    (
        "borrowed objects and references",
        "agent/src/toolbox/git/control/tests.rs",
        "a_repository_that_borrows_from_elsewhere_is_refused",
    ),
    (
        "a lock that is kept",
        "agent/src/toolbox/git/lock.rs",
        "a_lock_that_is_not_released_is_given_up_on_and_said",
    ),
    (
        "a stop before a run",
        "agent/tests/it/inside.rs",
        "a_stop_is_heard_while_the_worktree_is_made_ready",
    ),
    (
        "relay connections, and whose refusal it is",
        "agent/src/relay.rs",
        "half_open_connections_are_bounded_and_what_commands_are_refused_is_not_the_toolboxes",
    ),
    ("pictures", "agent/src/transcript/state/show.rs", "only_the_newest_pictures_stay_in_memory"),
    (
        "a yes to a part",
        "agent/src/tools/learning/form.rs",
        "what_comes_is_shown_where_not_all_of_a_change_is",
    ),
    (
        "a stranger's words in a prompt",
        "agent/src/memory/foreign.rs",
        "the_quoted_lines_of_a_prompt_are_nobodys_word_of_the_team",
    ),
    (
        "commands and research as sources",
        "agent/src/memory/foreign.rs",
        "commands_and_research_are_sources",
    ),
    (
        "the repository itself",
        "agent/guides/src/policy/risk/repository.rs",
        "whatever_could_reach_the_repository_asks",
    ),
    (
        "work that is written over",
        "agent/guides/src/policy/risk/overlooked.rs",
        "whatever_writes_over_files_takes_a_snapshot_and_does_not_ask",
    ),
    (
        "other spellings of a command",
        "agent/guides/src/policy/risk/overlooked.rs",
        "what_leaves_by_another_spelling_asks",
    ),
    (
        "safe rules",
        "agent/guides/src/policy/risk/overlooked.rs",
        "a_safe_rule_lifts_neither_a_redirection_nor_a_verb_behind_its_words",
    ),
    (
        "safe rules that are learned",
        "agent/src/tools/section.rs",
        "only_what_ran_green_is_called_safe",
    ),
    ("base64 in lines", "crds/redact/src/encoded.rs", "lines_of_one_word_are_decoded_as_one"),
    ("base64 of other than ASCII", "crds/redact/src/encoded.rs", "text_that_is_not_ascii_is_text"),
    (
        "limits of other processes",
        "agent/tests/it/inside.rs",
        "a_command_lowers_its_own_limits_alone",
    ),
    ("threads", "agent/tests/it/inside.rs", "too_many_threads_end_with_their_command"),
    (
        "rules against the rules",
        "agent/src/memory/hostile.rs",
        "what_undoes_the_protection_is_not_taken",
    ),
    (
        "exit codes that are printed",
        "agent/src/history/tests.rs",
        "what_a_command_prints_makes_it_no_green_one",
    ),
    (
        "modes in folders of tools",
        "agent/src/toolbox/modes.rs",
        "what_git_has_in_a_folder_of_tools_is_kept_too",
    ),
    (
        "a folder full of outputs",
        "agent/src/toolbox/output.rs",
        "a_folder_that_a_command_has_filled_is_looked_at_in_part",
    ),
];

#[test]
fn every_attempt_from_inside_a_pod_has_its_test() {
    let root = Path::new(codebutler_testbed::FOLDER).join("..");
    for (what, file, name) in INSIDE {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let (before, _) = text
            .split_once(&format!("fn {name}()"))
            .unwrap_or_else(|| panic!("{what}: {file} has no test {name}"));
        let mut last = before.trim_end().lines().rev();
        let is_test = last.next().is_some_and(|line| line.trim() == "async")
            && last.next().is_some_and(|line| line.trim().starts_with("#[tokio::test"))
            || before.trim_end().ends_with("#[test]");
        assert!(is_test, "{what}: {name} is no test");
    }
}
