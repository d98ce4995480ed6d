//! Tests of the body of a model call as providers get it.

use codebutler_wire::EditForm;

use super::super::tests::look;
use super::*;
use crate::model;

fn called(id: &str) -> Value {
    json!({"role": "assistant", "content": null, THINKER: "m x", "reasoning": "hm",
           "tool_calls": [{"id": id, "type": "function", "function": {"name": "X", "arguments": "{}"}}]})
}

fn marks(body: &WindowRequest<'_>) -> Vec<usize> {
    let sent = json!(body);
    let messages = sent["messages"].as_array().unwrap();
    let marked = |message: &Value| message["content"][0].get("cache_control").is_some();
    (0..messages.len()).filter(|at| marked(&messages[*at])).collect()
}

#[test]
fn a_request_without_tools_names_none() {
    let hi = [model::user_message("hi")];
    let body = build_request(&look(1000), "s", &hi, &[]);
    assert_eq!(
        json!(body),
        json!({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]})
    );
    let tools = [json!({})];
    let body = build_request(&look(1000), "s", &[], &tools);
    assert_eq!(json!(body)["tool_choice"], "auto");
    assert_eq!(json!(body.without_calls())["tool_choice"], "none");
    let quirks = BTreeSet::from([ModelQuirk::NoToolChoice]);
    let look = WindowLook { quirks: &quirks, ..look(1000) };
    let body = json!(build_request(&look, "s", &[], &tools).without_calls());
    assert!(body.get("tool_choice").is_none() && body["tools"] == json!(tools), "{body}");
}

#[test]
fn marks_stand_where_they_hit_and_never_on_what_changes() {
    let chat = [
        model::user_message("go"),
        called("a"),
        model::tool_message("a", "one"),
        called("b"),
        model::tool_message("b", "two"),
        // A mark needs a text.
        json!({"role": "tool", "tool_call_id": "c", "content": ""}),
    ];
    let look = WindowLook { marked: true, ..look(1000) };
    let mut body = build_request(&look, "s", &chat, &[]);
    body.push(model::user_message("[CodeButler] Your list"));
    assert_eq!(marks(&body), [0, 3, 5]);
    let sent = json!(body);
    assert_eq!(
        sent["messages"][5],
        json!({"role": "tool", "tool_call_id": "b", "content":
            [{"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}}]})
    );
    assert_eq!(sent["messages"][7]["content"], "[CodeButler] Your list");
    // The prefix before a mark is the same, call after call.
    let before = json!(build_request(&look, "s", &chat[..3], &[]));
    for at in 0..=3 {
        let plain = |body: &Value| {
            let text = body["messages"][at].to_string();
            text.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
        };
        assert_eq!(plain(&before), plain(&sent), "{at}");
    }
    let quirks = BTreeSet::from([ModelQuirk::NoMarks]);
    let look = WindowLook { quirks: &quirks, ..look };
    assert!(marks(&build_request(&look, "s", &chat, &[])).is_empty());
}

#[test]
fn what_all_conversations_of_a_role_have_is_marked_apart() {
    let chat = [model::user_message("go"), called("a"), model::tool_message("a", "one")];
    let of = |own: &str, marked| {
        let system = format!("house and role\n{own}");
        let look = WindowLook { marked, shared: "house and role\n".len(), ..look(1000) };
        json!(build_request(&look, &system, &chat, &[]))
    };
    let (one, two) = (of("thread 1", true), of("thread 2", true));
    let parts = |body: &Value| body["messages"][0]["content"].as_array().unwrap().clone();
    assert_eq!(parts(&one)[0].to_string(), parts(&two)[0].to_string());
    assert_eq!(parts(&one)[1]["text"], "thread 1");
    let marks = one.to_string().matches("cache_control").count();
    assert_eq!(marks, 4, "as many as there may be");
    assert_eq!(of("thread 1", false)["messages"][0]["content"], "house and role\nthread 1");
}

#[test]
fn a_model_of_another_family_is_shown_earlier_calls_in_its_own_form() {
    let written = model::WrittenCall {
        call: 0,
        name: "Edit".into(),
        arguments: r#"{"file_path": "a", "old_string": "x", "new_string": "y"}"#.into(),
        free: false,
    };
    let answer = model::AssistantMessage {
        tool_calls: vec![model::ToolCall {
            id: "c".into(),
            name: "Edit".into(),
            arguments: r#"{"path":"a","edits":[{"old":"x","new":"y"}]}"#.into(),
        }],
        form: EditForm::ClaudeNames,
        written: vec![written.clone()],
        ..model::AssistantMessage::default()
    };
    let chat = [model::user_message("go"), answer.to_chat(None), model::tool_message("c", "ok")];
    let sent = |form| {
        let look = WindowLook { form, ..look(9000) };
        json!(build_request(&look, "s", &chat, &[]))["messages"][2].clone()
    };
    let own = sent(EditForm::ClaudeNames);
    assert_eq!(own["tool_calls"][0], written.to_chat("c"), "as it was written");
    assert_eq!(own.as_object().unwrap().len(), 3, "nothing of ours is sent: {own}");
    let plain = &sent(EditForm::Replacements)["tool_calls"][0]["function"];
    assert_eq!(plain["arguments"], answer.tool_calls[0].arguments);
    let patch = &sent(EditForm::Patch)["tool_calls"][0]["function"];
    assert_eq!(patch["name"], "apply_patch");
    let free = &sent(EditForm::FreePatch)["tool_calls"][0];
    assert_eq!((&free["type"], &free["id"]), (&json!("custom"), &json!("c")));
    assert!(free["custom"]["input"].as_str().unwrap().contains("*** Update File: a\n@@\n-x\n+y"));
}

#[test]
fn a_picture_is_marked_on_its_words() {
    let chat = [model::picture_message("look", "data:image/png;base64,AA==")];
    let body = json!(build_request(&WindowLook { marked: true, ..look(9000) }, "s", &chat, &[]));
    let parts = &body["messages"][1]["content"];
    assert_eq!(parts[0]["cache_control"]["type"], "ephemeral");
    assert_eq!(parts[1], chat[0]["content"][1]);
}

#[test]
fn reasoning_goes_back_only_to_the_model_that_it_came_from() {
    let chat = [model::user_message("go"), called("a"), model::tool_message("a", "x")];
    let sent =
        |look: &WindowLook<'_>| json!(build_request(look, "s", &chat, &[]))["messages"][2].clone();
    let own = WindowLook { thinker: Some("m x"), ..look(1000) };
    assert_eq!(sent(&own)["reasoning"], "hm");
    assert!(sent(&own).get(THINKER).is_none());
    let none = BTreeSet::from([ModelQuirk::NoReasoning]);
    let blank = BTreeSet::from([ModelQuirk::BlankReasoning]);
    for other in [
        WindowLook { thinker: None, ..own },
        WindowLook { thinker: Some("m y"), ..own },
        WindowLook { model: "other", ..own },
        WindowLook { quirks: &none, ..own },
    ] {
        let sent = sent(&other);
        assert!(sent.get("reasoning").is_none() && sent.get(THINKER).is_none(), "{other:?}");
    }
    let blank = WindowLook { quirks: &blank, thinker: None, ..own };
    assert_eq!(sent(&blank)["reasoning_content"], " ", "an empty one is refused as missing");
}

#[test]
fn each_answer_has_reasoning_where_a_provider_misses_it() {
    let said = |name: &str, text: &str| json!({"role": "assistant", "content": "a", THINKER: "m x", name: text});
    let chat = [
        model::user_message("go"),
        json!({"role": "assistant", "content": "a part of an answer"}),
        model::user_message("on"),
        said("reasoning_content", ""),
        model::user_message("on"),
        said("reasoning_content", "hm"),
        called("a"),
        model::tool_message("a", "x"),
        model::user_message("on"),
    ];
    let quirks = BTreeSet::from([ModelQuirk::BlankReasoning, ModelQuirk::Bridge]);
    let own = WindowLook { quirks: &quirks, thinker: Some("m x"), ..look(1000) };
    let body = build_request(&own, "s", &chat, &[]);
    let sent = json!(body);
    let answers = sent["messages"].as_array().unwrap().iter();
    let answers = answers.filter(|message| message["role"] == "assistant");
    let thoughts: Vec<_> = answers.map(|answer| &answer["reasoning_content"]).collect();
    // The one without has its reasoning in another field.
    assert_eq!(json!(thoughts), json!([" ", " ", "hm", null, " "]), "{sent}");
    let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    assert_eq!(text.matches("reasoning_content").count(), 4, "once in each: {text}");
}

#[test]
fn a_signature_goes_back_only_to_the_model_that_it_came_from() {
    let mut signed = called("a");
    let google = json!({"google": {"thought_signature": "c2ln"}});
    signed["tool_calls"][0]["extra_content"] = google.clone();
    let other = called("b")["tool_calls"][0].clone();
    signed["tool_calls"].as_array_mut().unwrap().push(other);
    let results = ["a", "b"].map(|id| model::tool_message(id, "x"));
    let chat = [&[model::user_message("go"), signed][..], &results].concat();
    let calls = |look: &WindowLook<'_>| {
        json!(build_request(look, "s", &chat, &[]))["messages"][2]["tool_calls"].clone()
    };
    let own = WindowLook { thinker: Some("m x"), ..look(1000) };
    assert_eq!(calls(&own), chat[1]["tool_calls"]);
    let foreign = WindowLook { model: "other", ..own };
    assert_eq!(calls(&foreign)[0], called("a")["tool_calls"][0]);
    // Google's API takes no call without one, and has a word for those of other models.
    let blank = BTreeSet::from([ModelQuirk::BlankSignatures]);
    let unsigned = calls(&WindowLook { quirks: &blank, ..foreign });
    let signature = unsigned[0]["extra_content"]["google"]["thought_signature"].as_str();
    assert_eq!(signature, Some("skip_thought_signature_validator"));
    assert_eq!(unsigned[1], called("b")["tool_calls"][0], "the first of an answer has it");
    assert_eq!(calls(&WindowLook { quirks: &blank, ..own })[0]["extra_content"], google);
}

#[test]
fn a_provider_that_wants_words_after_a_result_gets_some() {
    let chat = [
        model::user_message("go"),
        called("a"),
        model::tool_message("a", "x"),
        model::user_message("stop"),
    ];
    let quirks = BTreeSet::from([ModelQuirk::Bridge]);
    let look = WindowLook { quirks: &quirks, ..look(1000) };
    let roles = |body: &WindowRequest<'_>| {
        let sent = json!(body);
        let roles = sent["messages"].as_array().unwrap().iter();
        roles.map(|m| m["role"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = build_request(&look, "s", &chat, &[]);
    assert_eq!(roles(&all), ["system", "user", "assistant", "tool", "assistant", "user"]);
    let mut last = build_request(&look, "s", &chat[..3], &[]);
    last.push(model::user_message("list"));
    assert_eq!(roles(&last), ["system", "user", "assistant", "tool", "assistant", "user"]);
}

fn sent_after(look: &WindowLook<'_>, chat: &[Value]) -> Vec<Value> {
    let mut body = build_request(look, "s", chat, &[]);
    body.push(model::user_message("list"));
    json!(body)["messages"].as_array().unwrap().clone()
}

#[test]
fn what_people_say_in_a_row_is_one_message() {
    let picture = model::picture_message("look", "data:image/png;base64,AA==");
    let chat = [model::user_message("go"), model::user_message("[CodeButler] facts"), called("a")];
    let words = sent_after(&look(9000), &chat[..2]);
    assert_eq!(words[1..], [model::user_message("go\n\n[CodeButler] facts\n\nlist")]);
    // A later request begins with the same bytes as the earlier one.
    let later = sent_after(&look(9000), &chat);
    assert_eq!(later[1]["content"], "go\n\n[CodeButler] facts");
    let shown = sent_after(&look(9000), &[chat[0].clone(), picture.clone(), chat[1].clone()]);
    let parts = shown[1]["content"].as_array().unwrap();
    let text = |at: usize| parts[at]["text"].as_str();
    assert_eq!((shown.len(), parts.len()), (2, 5));
    assert_eq!([text(0), text(1), text(3)], [Some("go"), Some("look"), Some("[CodeButler] facts")]);
    assert_eq!(parts[2], picture["content"][1]);
    let marked = WindowLook { marked: true, ..look(9000) };
    let parts = sent_after(&marked, &chat[..2])[1]["content"].clone();
    let marks: Vec<bool> = (0..3).map(|n| parts[n].get("cache_control").is_some()).collect();
    assert_eq!(marks, [false, true, false]);
}

#[test]
fn templates_that_insist_on_turns_and_short_ids_get_them() {
    let two = json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_one", "type": "function", "function": {"name": "X", "arguments": "{}"}},
        {"id": "call_two", "type": "function", "function": {"name": "X", "arguments": "{}"}}]});
    let chat = [
        model::user_message("go"),
        two,
        model::tool_message("call_two", "2"),
        model::tool_message("call_one", "1"),
        model::user_message("news"),
        json!({"role": "assistant", "content": "done"}),
        model::user_message("again"),
    ];
    let quirks = BTreeSet::from([
        ModelQuirk::Bridge,
        ModelQuirk::OneByOne,
        ModelQuirk::ShortIds,
        ModelQuirk::NoSystem,
    ]);
    let sent = sent_after(&WindowLook { quirks: &quirks, ..look(9000) }, &chat);
    let roles: Vec<_> = sent.iter().map(|m| m["role"].as_str().unwrap()).collect();
    // A result counts as what a person says, or not at all.
    for (n, role) in roles.iter().enumerate() {
        assert_eq!(["user", "tool"].contains(role), n % 2 == 0, "{roles:?}");
    }
    let asked = roles.iter().filter(|role| **role == "tool").count();
    assert_eq!(asked, 2);
    for n in [1, 3] {
        let id = sent[n]["tool_calls"][0]["id"].as_str().unwrap();
        assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()), "{id}");
        assert_eq!(sent[n + 1]["tool_call_id"], id);
    }
    assert_eq!((&sent[2]["content"], &sent[4]["content"]), (&json!("1"), &json!("2")));
    let told = BTreeSet::from([ModelQuirk::ToldCalls, ModelQuirk::NoSystem]);
    let sent = sent_after(&WindowLook { quirks: &told, ..look(9000) }, &chat);
    let roles: Vec<_> = sent.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    let results = sent[2]["content"].as_str().unwrap();
    assert!(results.contains("[result of call_two]\n2") && results.ends_with("\n\nnews"));
    assert!(sent[1]["content"].as_str().unwrap().contains("[call call_one] X {}"));
    let none = BTreeSet::from([ModelQuirk::NullContent]);
    let sent = sent_after(&WindowLook { quirks: &none, ..look(9000) }, &chat);
    assert!(sent[2]["content"].is_null());
}
