use super::*;

fn roles() -> Vec<String> {
    ["pm", "coder", "reviewer"].map(str::to_owned).to_vec()
}

#[test]
fn a_person_addresses_roles_anywhere_outside_code() {
    for (text, expected) in [
        ("@codebutler.pm hello", vec!["pm"]),
        ("hello @codebutler.coder, and (@codebutler.reviewer)!", vec!["coder", "reviewer"]),
        ("@codebutler.coder @codebutler.coder", vec!["coder"]),
        ("please, @CodeButler.PM.", vec!["pm"]),
        ("&gt; @codebutler.pm said", vec![]),
        ("&gt; @codebutler.pm said\n@codebutler.coder go", vec!["coder"]),
        ("so\n&gt;&gt;&gt; a\n@codebutler.pm", vec![]),
        ("• &gt; @codebutler.pm\n2. &gt; @codebutler.coder", vec![]),
        ("```\n&gt;&gt;&gt; x\n```\n@codebutler.pm", vec!["pm"]),
        ("look @codebutler.\u{200b}pm", vec!["pm"]),
        ("ask @<http://codebutler.pm|codebutler.pm> please", vec!["pm"]),
        ("<@U0BOT>.coder go on", vec!["coder"]),
        ("<@U0BOT> coder go on", vec!["coder"]),
        ("<@U0BOT> .coder go on", vec!["coder"]),
        ("<@U0BOT>\u{a0}coder, and @codebutler pm", vec!["coder", "pm"]),
        ("_@codebutler.coder_ and *@codebutler.pm*", vec!["coder", "pm"]),
        ("`x` @codebutler.pm", vec!["pm"]),
        ("a ` lonely tick @codebutler.pm", vec!["pm"]),
        ("<@U0BOT> go on", vec![]),
        ("<@U0BOT>", vec![]),
        ("<@U0BOT>coder", vec![]),
        ("<@U0BOT>\ncoder", vec![]),
        ("<@U0BOT> coders", vec![]),
        ("<@U0BOT> pm-2", vec![]),
        ("<@U0OTHER>.coder", vec![]),
        ("<@U0OTHER> coder", vec![]),
        ("nobody", vec![]),
        ("@codebutler.pmx @codebutler.artist @codebutler. @codebutler", vec![]),
        ("@codebutler.pm-2 @codebutler.pm_2 @codebutler.pm.example.org", vec![]),
        ("mail me@codebutler.pm or x/@codebutler.pm", vec![]),
        ("`@codebutler.pm` and ``a ` @codebutler.pm``", vec![]),
        ("```\n@codebutler.pm\n```", vec![]),
        ("inline ```@codebutler.pm``` block", vec![]),
        ("```\n@codebutler.pm never closed", vec![]),
        ("<https://example.org/@codebutler.pm|see>", vec![]),
        ("<https://example.org/@codebutler.pm|@codebutler.pm>", vec![]),
    ] {
        assert_eq!(by_person(text, &roles(), Some("U0BOT")), expected, "{text}");
    }
}

#[test]
fn a_role_hands_over_at_the_start_of_a_line_whatever_decorates_it() {
    for (text, expected) in [
        ("@codebutler.coder implement it", vec!["coder"]),
        ("Done.\n  @codebutler.reviewer please look", vec!["reviewer"]),
        (
            "@codebutler.coder a\n@codebutler.reviewer b\n@codebutler.coder c",
            vec!["coder", "reviewer"],
        ),
        ("*@codebutler.coder* please go on", vec!["coder"]),
        ("**@codebutler.coder**: go on", vec!["coder"]),
        ("_@codebutler.coder_, go on", vec!["coder"]),
        ("~@codebutler.coder~", vec!["coder"]),
        ("*Next:* @codebutler.coder", vec!["coder"]),
        ("- @codebutler.coder", vec!["coder"]),
        ("• @codebutler.coder implement it", vec!["coder"]),
        ("1. @codebutler.coder implement it", vec!["coder"]),
        ("2) @codebutler.coder", vec!["coder"]),
        ("→ @codebutler.coder", vec!["coder"]),
        ("-&gt; @codebutler.coder", vec!["coder"]),
        ("👉 @codebutler.coder", vec!["coder"]),
        (":point_right: @codebutler.coder go", vec!["coder"]),
        (":white_check_mark: Done! @codebutler.reviewer please review", vec!["reviewer"]),
        ("Hi @codebutler.coder, the plan is approved", vec!["coder"]),
        ("Hey, @codebutler.coder!", vec!["coder"]),
        ("Over to @codebutler.coder:", vec!["coder"]),
        ("Handing this over to @codebutler.reviewer.", vec!["reviewer"]),
        ("Next up: @codebutler.coder", vec!["coder"]),
        ("@codebutler coder implement it", vec!["coder"]),
        ("I will ask @codebutler.coder", vec![]),
        ("as @codebutler.coder said", vec![]),
        ("- @codebutler.coder fixed the loop", vec![]),
        ("- @codebutler.coder has opened the pull request", vec![]),
        ("1. @codebutler.reviewer approved", vec![]),
        ("@codebutler.coder's change is fine", vec![]),
        ("Thanks @codebutler.coder, fine", vec![]),
        ("The fix of @codebutler.coder is good", vec![]),
        ("@codebutler.pm that is me", vec![]),
        ("&gt; @codebutler.coder", vec![]),
        ("&gt; - *@codebutler.coder* go", vec![]),
        ("`x` @codebutler.coder", vec![]),
        ("```\n@codebutler.coder\n```", vec![]),
        ("`@codebutler.coder`", vec![]),
        ("**`@codebutler.coder`** please", vec![]),
    ] {
        assert_eq!(by_role(text, &roles(), "pm", false), expected, "{text}");
    }
}

#[test]
fn last_words_hand_over_in_the_middle_of_a_line_to_one_role() {
    for (text, expected) in [
        ("The plan is approved, over to @codebutler.coder.", vec!["coder"]),
        ("All set. Please @codebutler.coder, implement it.", vec!["coder"]),
        ("The pull request is open. @codebutler.reviewer please review.", vec!["reviewer"]),
        ("Plan approved - handing off to @codebutler.coder", vec!["coder"]),
        ("The tests pass; @codebutler.reviewer, your turn", vec!["reviewer"]),
        ("It is done, now @codebutler.reviewer can look at it", vec!["reviewer"]),
        // One role is addressed at the start of a line: the other one is talked about.
        (
            "@codebutler.coder go\nThen over to @codebutler.reviewer please",
            vec!["coder", "reviewer"],
        ),
        ("@codebutler.coder go, and tell it to @codebutler.reviewer", vec!["coder"]),
        ("It is as @codebutler.coder said.", vec![]),
        ("Thanks to @codebutler.coder for the fix.", vec![]),
        ("I will ask @codebutler.coder to look.", vec![]),
        ("I asked @codebutler.coder to look.", vec![]),
        ("The change by @codebutler.coder is good.", vec![]),
        ("According to @codebutler.coder, it works.", vec![]),
        ("I agree with @codebutler.reviewer.", vec![]),
        ("It goes over to @codebutler.coder or to @codebutler.reviewer.", vec![]),
        ("Say `over to @codebutler.coder` when it is done.", vec![]),
        ("&gt; over to @codebutler.coder", vec![]),
        ("@codebutler.coder's plan", vec![]),
        ("over to @codebutler.pm", vec![]),
    ] {
        assert_eq!(by_role(text, &roles(), "pm", true), expected, "{text}");
    }
    let midway = "The plan is approved, over to @codebutler.coder.";
    assert_eq!(by_role(midway, &roles(), "pm", false), Vec::<String>::new());
}
