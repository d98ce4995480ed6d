use super::*;

fn whole(events: &[Value], end: &str) -> Option<Value> {
    let mut stream = ": a remark\n\n".to_owned();
    stream.extend(events.iter().map(|event| format!("data: {event}\r\n\r\n")));
    stream.push_str(end);
    let wholes = [1, 7, 10_000].map(|size| {
        let mut answer = StreamedAnswer::default();
        stream.as_bytes().chunks(size).for_each(|piece| answer.take(piece));
        answer.into_whole()
    });
    assert!(wholes.iter().all(|whole| *whole == wholes[0]), "wherever it is cut");
    wholes.into_iter().next()?.map(|whole| serde_json::from_slice(&whole).unwrap())
}

fn piece(delta: &Value) -> Value {
    json!({"id": "c1", "model": "m", "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

#[test]
fn pieces_add_up_to_the_whole_answer() {
    let events = [
        piece(&json!({"role": "assistant", "content": null})),
        piece(&json!({"reasoning_content": "hm"})),
        piece(&json!({"content": "I read"})),
        piece(&json!({"content": " it."})),
        piece(&json!({"tool_calls": [{"index": 0, "id": "a", "type": "function",
            "function": {"name": "Read", "arguments": ""}}]})),
        piece(&json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"path\":"}}]})),
        piece(
            &json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "Glob", "arguments": {"x": 1}}}]}),
        ),
        piece(
            &json!({"tool_calls": [{"index": 0, "function": {"name": "Read", "arguments": "\"é\"}"}}]}),
        ),
        finish("tool_calls"),
    ];
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"cost\":0.0123456789}}\n\ndata: [DONE]\n\n";
    let answer = whole(&events, usage).unwrap();
    assert_eq!(
        answer["choices"],
        json!([{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": "I read it.", "reasoning_content": "hm",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{\"path\":\"é\"}"}},
            {"id": "b", "type": "function", "function": {"name": "Glob", "arguments": "{\"x\":1}"}},
        ]}}])
    );
    assert_eq!((&answer["id"], &answer["model"]), (&json!("c1"), &json!("m")));
    assert_eq!(answer["object"], "chat.completion");
    let mut exact = StreamedAnswer::default();
    exact.take(usage.as_bytes());
    let text = String::from_utf8(exact.into_whole().unwrap()).unwrap();
    assert!(text.contains("\"cost\":0.0123456789"), "{text}");
}

#[test]
fn calls_without_indexes_go_by_their_ids_and_their_order() {
    let events = [
        piece(
            &json!({"tool_calls": [{"id": "a", "function": {"name": "Read", "arguments": "{}"}}]}),
        ),
        piece(
            &json!({"tool_calls": [{"id": "b", "function": {"name": "Glob", "arguments": "{"}}]}),
        ),
        piece(&json!({"tool_calls": [{"function": {"arguments": "}"}}]})),
        finish("stop"),
    ];
    let answer = whole(&events, "").unwrap();
    let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap();
    let named = |n: usize| (&calls[n]["id"], &calls[n]["function"]["arguments"]);
    assert_eq!(calls.len(), 2);
    assert_eq!(named(0), (&json!("a"), &json!("{}")));
    assert_eq!(named(1), (&json!("b"), &json!("{}")));
}

#[test]
fn signed_thoughts_stay_as_they_were() {
    let block = |text: &str| {
        json!({"reasoning_details": [
        {"type": "reasoning.text", "index": 0, "text": text, "signature": null}]})
    };
    let signed = json!({"reasoning_details": [
        {"type": "reasoning.text", "index": 0, "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "x"}]});
    let events = [piece(&block("I ")), piece(&block("think")), piece(&signed), finish("stop")];
    let answer = whole(&events, "data: [DONE]\n").unwrap();
    assert_eq!(
        answer["choices"][0]["message"]["reasoning_details"],
        json!([{"type": "reasoning.text", "index": 0, "text": "I think", "signature": "s"},
            {"type": "reasoning.encrypted", "index": 1, "data": "x"}])
    );
}

#[test]
fn blocks_that_share_an_index_end_where_another_kind_begins() {
    let block =
        |kind: &str, field: &str, text: &str| json!({"type": kind, field: text, "index": 0});
    let summary = |text: &str| block("reasoning.summary", "summary", text);
    let secret = |id: &str, text: &str| {
        let mut secret = block("reasoning.encrypted", "data", text);
        secret["id"] = json!(id);
        secret
    };
    let blocks =
        [summary("I "), summary("read"), secret("a", "x"), secret("b", "y"), summary("more")];
    let mut events: Vec<Value> =
        blocks.iter().map(|block| piece(&json!({"reasoning_details": [block]}))).collect();
    events.push(finish("stop"));
    let answer = whole(&events, "data: [DONE]\n").unwrap();
    assert_eq!(
        answer["choices"][0]["message"]["reasoning_details"],
        json!([summary("I read"), secret("a", "x"), secret("b", "y"), summary("more")])
    );
    // With an index of its own each block goes on, whatever came between.
    let text =
        |index: u64, text: &str| json!({"type": "reasoning.text", "text": text, "index": index});
    let events: Vec<Value> = [text(0, "a"), text(1, "b"), text(0, "c"), text(1, "d")]
        .iter()
        .map(|block| piece(&json!({"reasoning_details": [block]})))
        .chain([finish("stop")])
        .collect();
    let answer = whole(&events, "data: [DONE]\n").unwrap();
    assert_eq!(
        answer["choices"][0]["message"]["reasoning_details"],
        json!([text(0, "ac"), text(1, "bd")])
    );
}

#[test]
fn the_signature_of_a_call_comes_with_it() {
    let google = json!({"google": {"thought_signature": "c2ln"}});
    let inner = json!({"thought_signature": "c2ln"});
    let events = [
        piece(
            &json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "extra_content": google,
            "function": {"name": "Read", "arguments": "{}"}}]}),
        ),
        piece(&json!({"tool_calls": [{"index": 1, "id": "b", "type": "function",
            "function": {"name": "Glob", "arguments": "{", "provider_specific_fields": inner}}]})),
        piece(&json!({"tool_calls": [{"index": 1, "function": {"arguments": "}"}}]})),
        finish("tool_calls"),
    ];
    let answer = whole(&events, "data: [DONE]\n").unwrap();
    let calls = &answer["choices"][0]["message"]["tool_calls"];
    assert_eq!(calls[0]["extra_content"], google);
    assert_eq!(calls[1]["provider_specific_fields"], inner);
    assert_eq!(calls[1]["function"], json!({"name": "Glob", "arguments": "{}"}));
}

#[test]
fn thoughts_in_pieces_are_blocks_with_and_without_indexes() {
    let thought = |text: &str| json!({"type": "thinking", "thinking": text});
    let sign =
        |signature: &str| json!({"type": "thinking", "thinking": "", "signature": signature});
    let pieces = [thought("I "), thought("think"), sign("s1"), thought("more"), sign("s2")];
    let numbered = pieces.iter().zip([0, 0, 0, 1, 1]).map(|(block, index)| {
        let mut block = block.clone();
        block["index"] = json!(index);
        block
    });
    let whole_thought = |text: &str, signature: &str| json!({"type": "thinking", "thinking": text, "signature": signature});
    for blocks in [pieces.to_vec(), numbered.collect()] {
        let mut events: Vec<Value> =
            blocks.iter().map(|block| piece(&json!({"thinking_blocks": [block]}))).collect();
        events.push(finish("stop"));
        let answer = whole(&events, "data: [DONE]\n").unwrap();
        assert_eq!(
            answer["choices"][0]["message"]["thinking_blocks"],
            json!([whole_thought("I think", "s1"), whole_thought("more", "s2")])
        );
    }
}

#[test]
fn usage_is_read_where_moonshot_has_it() {
    let usage = json!({"prompt_tokens": 19, "completion_tokens": 13, "total_tokens": 32});
    let end =
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}]});
    let answer = whole(&[piece(&json!({"content": "hi"})), end], "data: [DONE]\n").unwrap();
    assert_eq!(answer["usage"], usage);
}

#[test]
fn what_broke_off_is_no_answer_and_an_error_is_one() {
    let words = || piece(&json!({"content": "half"}));
    assert_eq!(whole(&[words()], ""), None, "no end");
    assert_eq!(whole(&[], ""), None);
    let failed = json!({"error": {"code": 502, "message": "gone"}, "choices": [
        {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]});
    let after_words = whole(&[words(), failed.clone()], "").unwrap();
    assert_eq!(after_words["choices"][0]["error"]["code"], 502);
    assert_eq!(after_words["choices"][0]["finish_reason"], "error");
    let thought = whole(&[piece(&json!({"reasoning_content": "hm"})), failed.clone()], "").unwrap();
    assert_eq!((&thought["error"]["code"], &thought["choices"]), (&json!(502), &json!([])));
    let at_once = whole(&[failed], "").unwrap();
    assert_eq!((&at_once["error"]["code"], &at_once["choices"]), (&json!(502), &Value::Null));
    let no_end_but_a_finish = whole(&[words(), finish("length")], "").unwrap();
    assert_eq!(no_end_but_a_finish["choices"][0]["finish_reason"], "length");
}

#[test]
fn an_answer_has_begun_with_its_first_words() {
    let mut answer = StreamedAnswer::default();
    answer.take(
        format!("data: {}\n\n", piece(&json!({"role": "assistant", "content": ""}))).as_bytes(),
    );
    assert_eq!((answer.pieces(), answer.id()), (0, Some("c1")));
    answer.take(format!("data: {}\n\n", piece(&json!({"content": "a"}))).as_bytes());
    assert_eq!(answer.pieces(), 1);
}

#[test]
fn a_message_that_has_come_in_pieces_is_not_said_again() {
    let call =
        json!({"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{}"}});
    let mut first = call.clone();
    first["index"] = 0.into();
    // As MiniMax ends a stream.
    let end = |message: Value, reason: &str| json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": reason, "message": message}]});
    let said = end(json!({"role": "assistant", "content": "I read it."}), "stop");
    let words = || [piece(&json!({"content": "I read"})), piece(&json!({"content": " it."}))];
    let answer = whole(&[&words()[..], std::slice::from_ref(&said)].concat(), "").unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "I read it.");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let called = end(json!({"content": "", "tool_calls": [call]}), "tool_calls");
    let answer = whole(&[piece(&json!({"tool_calls": [first]})), called], "").unwrap();
    assert_eq!(answer["choices"][0]["message"]["tool_calls"], json!([call]));
    let late = end(
        json!({"content": "I read it.", "reasoning_content": "hm", "tool_calls": [call]}),
        "tool_calls",
    );
    let thought = [piece(&json!({"reasoning_content": "\nhm"}))];
    let answer = whole(&[&thought[..], &words()[..], &[late]].concat(), "").unwrap();
    assert_eq!(
        answer["choices"][0]["message"],
        json!({"role": "assistant", "content": "I read it.", "reasoning_content": "\nhm", "tool_calls": [call]}),
        "a call that comes at the end alone is not lost"
    );
    let nameless = json!({"type": "function", "function": {"name": "Read", "arguments": "{}"}});
    let streamed = piece(&json!({"tool_calls": [nameless]}));
    let ended = end(json!({"content": null, "tool_calls": [nameless]}), "tool_calls");
    let answer = whole(&[streamed, ended], "").unwrap();
    assert_eq!(answer["choices"][0]["message"]["tool_calls"], json!([nameless]), "without an id");
    let at_once = whole(&[said], "").unwrap();
    assert_eq!(at_once["choices"][0]["message"]["content"], "I read it.", "there were no pieces");
    let parts =
        ["ha", "ha"].map(|text| json!({"choices": [{"index": 0, "message": {"content": text}}]}));
    let answer = whole(&[&parts[..], &[finish("stop")]].concat(), "").unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "haha", "pieces under another name");
}

#[test]
fn a_piece_without_a_name_and_an_id_goes_on_with_the_last_call() {
    let part = |index: u64, name: Value, arguments: &str| {
        piece(&json!({"tool_calls": {"index": index, "id": "", "type": "function",
            "function": {"name": name, "arguments": arguments}}}))
    };
    // As older servers of Hugging Face count: tokens, not calls.
    let events = [
        part(0, "Read".into(), ""),
        part(1, Value::Null, "{\"path\":"),
        part(2, Value::Null, "\"x\"}"),
        finish("eos_token"),
    ];
    let answer = whole(&events, "").unwrap();
    assert_eq!(
        answer["choices"][0]["message"]["tool_calls"],
        json!([{"type": "function", "function": {"name": "Read", "arguments": "{\"path\":\"x\"}"}}])
    );
}

#[test]
fn calls_that_share_an_index_stay_apart() {
    let call = |id: &str, name: &str, arguments: &str| {
        piece(&json!({"tool_calls": [{"index": 0, "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}}]}))
    };
    let more = |arguments: &str| {
        piece(&json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}))
    };
    // As Ollama and Gemini send calls that are made at once: whole ones, and in pieces.
    let whole_ones = [call("a", "Read", "{\"path\":\"x\"}"), call("b", "Read", "{\"path\":\"y\"}")];
    let in_pieces = [
        call("a", "Read", ""),
        more("{\"path\":"),
        more("\"x\"}"),
        call("b", "Read", "{\"path\":"),
        more("\"y\"}"),
    ];
    for events in [&whole_ones[..], &in_pieces[..]] {
        let answer = whole(events, "data: [DONE]\n").unwrap();
        let function =
            |path: &str| json!({"name": "Read", "arguments": json!({"path": path}).to_string()});
        assert_eq!(
            answer["choices"][0]["message"]["tool_calls"],
            json!([{"id": "a", "type": "function", "function": function("x")},
                {"id": "b", "type": "function", "function": function("y")}])
        );
    }
}

#[test]
fn calls_that_share_an_index_and_have_no_ids_stay_apart() {
    let (x, y) = (json!({"path": "x"}), json!({"path": "y"}));
    let call = |arguments: &Value| {
        piece(&json!({"tool_calls": [{"index": 0, "id": "", "type": "function",
            "function": {"name": "Read", "arguments": arguments}}]}))
    };
    let as_text = |arguments: &Value| call(&arguments.to_string().into());
    // Some repeat the name in each piece of a call.
    let in_pieces = ["{\"path\":", "\"x\"}", ""].map(|part| call(&part.into()));
    for events in [
        vec![as_text(&x), as_text(&y)],
        vec![call(&x), call(&y)],
        [&in_pieces[..], &[as_text(&y)]].concat(),
    ] {
        let answer = whole(&events, "data: [DONE]\n").unwrap();
        let call = |arguments: &Value| {
            let function = json!({"name": "Read", "arguments": arguments.to_string()});
            json!({"type": "function", "function": function})
        };
        assert_eq!(
            answer["choices"][0]["message"]["tool_calls"],
            json!([call(&x), call(&y)]),
            "{events:?}"
        );
    }
}

#[test]
fn parts_and_text_of_one_answer_add_up() {
    let thought = json!({"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]});
    let text = |text: &str| json!({"type": "text", "text": text});
    let events = [
        piece(&json!({"role": "assistant", "content": ""})),
        piece(&json!({"content": [thought]})),
        piece(&json!({"content": "I re"})),
        piece(&json!({"content": "ad"})),
        piece(&json!({"content": [text(" it.")]})),
        finish("stop"),
    ];
    let answer = whole(&events, "").unwrap();
    let expected = json!([thought, text("I read"), text(" it.")]);
    assert_eq!(answer["choices"][0]["message"]["content"], expected);
}

#[test]
fn no_piece_is_missing_in_an_answer() {
    let half = |content: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{content}\"}}}}]}}\n\n"
        )
    };
    let end = "data: [DONE]\n";
    let said = |stream: &str| {
        whole(&[piece(&json!({"content": "a "}))], stream)
            .map(|answer| answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned())
    };
    // A character that was cut in two costs itself alone.
    let cut = half("\\\\ \\ud83d\\ude00 b \\ud83d c\\n");
    assert_eq!(said(&format!("{cut}{end}")).unwrap(), "a \\ \u{1f600} b \u{fffd} c\n");
    assert_eq!(said(&format!("data: ping\n\n{}{end}", half("b"))).unwrap(), "a b");
    assert_eq!(said(&format!("data: {{\"choices\":[{{\n\n{}{end}", half("b"))), None);
    // An event of several lines is one piece, whatever ends its lines.
    let pretty = serde_json::to_string_pretty(&piece(&json!({"content": "b"}))).unwrap();
    for line_end in ["\n", "\r\n", "\r"] {
        let mut event = String::new();
        event.extend(pretty.lines().map(|line| format!("data: {line}{line_end}")));
        event.push_str(line_end);
        assert_eq!(said(&format!("{event}{end}")).unwrap(), "a b", "{line_end:?}");
        assert_eq!(said(&format!("{event}{}{end}", half("c"))).unwrap(), "a bc", "{line_end:?}");
    }
    // Without empty lines between them, pieces are what each line has.
    let dense = half("b").replace("\n\n", "\n");
    assert_eq!(said(&format!("{dense}{dense}{end}")).unwrap(), "a bb");
    let mut answer = StreamedAnswer::default();
    answer.take(b"data: {\"choices\":[{\"delta\":{\"content\":\"caf\xc3\"}}]}\n\ndata: [DONE]\n");
    let answer = String::from_utf8(answer.into_whole().unwrap()).unwrap();
    assert!(answer.contains("caf\u{fffd}"), "{answer}");
}

#[test]
fn a_failure_of_minimax_is_an_error_and_its_success_is_none() {
    let base = |code: u32| json!({"status_code": code, "status_msg": "insufficient balance"});
    let failed = json!({"choices": null, "base_resp": base(1008)});
    let answer = whole(&[failed], "").unwrap();
    assert_eq!(answer["error"]["message"], "insufficient balance");
    let mut done = finish("stop");
    done["base_resp"] = base(0);
    let answer = whole(&[piece(&json!({"content": "a"})), done], "").unwrap();
    assert_eq!(
        (&answer["error"], &answer["choices"][0]["message"]["content"]),
        (&Value::Null, &json!("a"))
    );
}

#[test]
fn an_error_is_one_in_whatever_form_and_an_empty_word_is_no_end() {
    for stream in [
        "error: {\"code\":500,\"message\":\"gone\"}\n\n",
        "{\"error\":{\"code\":500,\"message\":\"gone\"}}\n\n",
        "data: {\"object\":\"error\",\"code\":500,\"message\":\"gone\"}\n\ndata: [DONE]\n\n",
    ] {
        let answer = whole(&[], stream).unwrap();
        assert_eq!((&answer["error"]["code"], &answer["choices"]), (&json!(500), &Value::Null));
    }
    let unended =
        json!({"choices": [{"index": 0, "delta": {"content": "half"}, "finish_reason": ""}]});
    assert_eq!(whole(&[unended], ""), None);
}

#[test]
fn zeros_and_the_usage_so_far_are_no_bill() {
    let zeros = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0}}\n\ndata: [DONE]\n\n";
    let answer = whole(&[piece(&json!({"content": "yes"})), finish("stop")], zeros).unwrap();
    assert_eq!(answer["usage"], Value::Null);
    let mut other = piece(&json!({"content": "or"}));
    (other["choices"][0]["index"], other["usage"]) =
        (json!(1), json!({"prompt_tokens": 7, "completion_tokens": 2}));
    assert_eq!(whole(&[finish("stop"), other], ""), None, "one goes on");
}
