use codebutler_crds::limits::ModelPrice;

use super::*;

fn bill(usage: &str) -> ProviderBill {
    read_bill(format!(r#"{{"id":"x","choices":[{{"a":1}}],"usage":{usage}}}"#).as_bytes()).unwrap()
}

#[test]
fn cost_is_exact_to_the_nano_dollar() {
    for (text, nanos) in [
        ("0.1", 100_000_000),
        ("0.3", 300_000_000),
        ("0.000123457", 123_457),
        ("1.23457e-4", 123_457),
        ("12.000000001", 12_000_000_001),
        ("\"0.05\"", 50_000_000),
        ("0", 0),
    ] {
        let bill = bill(&format!(r#"{{"prompt_tokens":7,"completion_tokens":3,"cost":{text}}}"#));
        let cost = NanoUsd(nanos);
        let usage = TokenUsage {
            cost,
            prompt_tokens: 7,
            completion_tokens: 3,
            calls: 1,
            ..TokenUsage::default()
        };
        assert_eq!(bill, ProviderBill::priced(usage), "{text}");
    }
}

#[test]
fn what_xai_has_charged_is_the_cost() {
    let told = |ticks: &str| {
        let usage = format!(
            r#"{{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"cost_in_usd_ticks":{ticks}}}"#
        );
        let bill = bill(&usage);
        (bill.priced, bill.usage.cost.0, bill.usage.completion_tokens)
    };
    assert_eq!(told("37756000"), (true, 3_775_600, 103));
    assert_eq!(told("37756001"), (true, 3_775_601, 103), "never less than it was");
    assert_eq!(told("null"), (false, 0, 103));
    assert_eq!(bill(r#"{"cost":0.5,"cost_in_usd_ticks":1}"#).usage.cost.0, 500_000_000);
}

#[test]
fn an_answer_that_counts_nothing_costs_what_was_expected() {
    let price = ModelPrice { prompt: NanoUsd(1_000_000_000), ..ModelPrice::default() };
    let expected = NanoUsd(7_000);
    let charged = |usage: &str, expected| {
        let bill = bill(usage).or_expected(expected).at(Some(&price));
        (bill.usage.cost, bill.estimated)
    };
    for usage in ["null", "{}", r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#] {
        assert_eq!(charged(usage, expected), (expected, true), "{usage}");
        assert_eq!(charged(usage, NanoUsd::ZERO), (NanoUsd::ZERO, false), "of a free server");
    }
    assert_eq!(charged(r#"{"prompt_tokens":5}"#, expected), (NanoUsd(5_000), false));
    let free = r#"{"prompt_tokens":0,"completion_tokens":0,"cost":0}"#;
    assert_eq!(charged(free, expected), (NanoUsd::ZERO, false), "its provider says so");
}

#[test]
fn an_answer_of_the_responses_api_is_billed_by_its_own_words() {
    let answer = r#"{"object":"response","error":null,"output":[{"type":"message"}],"usage":{"input_tokens":900,
        "input_tokens_details":{"cached_tokens":300},"output_tokens":40,"output_tokens_details":{"reasoning_tokens":25}}}"#;
    let bill = read_bill(answer.as_bytes()).unwrap();
    assert!(bill.completed && bill.reported && !bill.priced);
    let TokenUsage { prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, .. } =
        bill.usage;
    assert_eq!(
        (prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens),
        (900, 300, 40, 25)
    );
    assert!(find_failure(answer.as_bytes()).is_none());
    assert!(!breaks_off(answer.as_bytes()));
    let half = br#"{"choices":[{"message":{"content":"half"},"finish_reason":"error","error":{"code":502}}]}"#;
    assert!(breaks_off(half) && find_failure(half).is_none());
}

#[test]
fn kept_written_and_thought_tokens_are_read_in_each_providers_words() {
    for (usage, expected) in [
        (
            r#"{"prompt_tokens":1000,"completion_tokens":90,"prompt_tokens_details":{"cached_tokens":700,"cache_write_tokens":200,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":60}}"#,
            (1000, 700, 200, 90, 60),
        ),
        (
            r#"{"input_tokens":100,"output_tokens":90,"cache_read_input_tokens":700,"cache_creation_input_tokens":200}"#,
            (1000, 700, 200, 90, 0),
        ),
        (
            r#"{"prompt_tokens":1000,"completion_tokens":90,"cache_read_input_tokens":700,"cache_creation_input_tokens":200,"prompt_tokens_details":{"cached_tokens":700}}"#,
            (1000, 700, 200, 90, 0),
        ),
        (
            r#"{"prompt_tokens":1000,"completion_tokens":90,"prompt_cache_hit_tokens":640,"prompt_cache_miss_tokens":360}"#,
            (1000, 640, 0, 90, 0),
        ),
        (
            r#"{"prompt_tokens":1000,"completion_tokens":90,"total_tokens":1090,"cached_tokens":640}"#,
            (1000, 640, 0, 90, 0),
        ),
        // SGLang's, which has them beside the details.
        (
            r#"{"prompt_tokens":1000,"completion_tokens":90,"total_tokens":1090,"reasoning_tokens":60,"prompt_tokens_details":{"cached_tokens":640}}"#,
            (1000, 640, 0, 90, 60),
        ),
        // xAI's, Google's, and those of a gateway that passes Anthropic's count on.
        (
            r#"{"prompt_tokens":10120,"completion_tokens":1499,"total_tokens":14428,"prompt_tokens_details":{"cached_tokens":128},"completion_tokens_details":{"reasoning_tokens":2809}}"#,
            (10_120, 128, 0, 4_308, 2_809),
        ),
        (r#"{"prompt_tokens":21,"completion_tokens":9,"total_tokens":90}"#, (21, 0, 0, 69, 60)),
        (
            r#"{"prompt_tokens":100,"completion_tokens":90,"total_tokens":1090,"cache_read_input_tokens":700,"cache_creation_input_tokens":200}"#,
            (1000, 700, 200, 90, 0),
        ),
        (
            r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":99},"completion_tokens_details":{"reasoning_tokens":99}}"#,
            (10, 10, 0, 5, 5),
        ),
        (
            r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":[1],"completion_tokens_details":null}"#,
            (10, 0, 0, 5, 0),
        ),
    ] {
        let told = bill(usage).usage;
        let told = (
            told.prompt_tokens,
            told.cached_tokens,
            told.written_tokens,
            told.completion_tokens,
            told.reasoning_tokens,
        );
        assert_eq!(told, expected, "{usage}");
    }
}

#[test]
fn with_ones_own_key_both_bills_count() {
    let of = |byok: &str, upstream: &str| {
        bill(&format!(
            r#"{{"cost":0.95,"is_byok":{byok},"cost_details":{{"upstream_inference_cost":{upstream}}}}}"#
        ))
        .usage
        .cost
    };
    assert_eq!(of("true", "19"), NanoUsd(19_950_000_000));
    assert_eq!(of("false", "19"), NanoUsd(950_000_000));
    assert_eq!(of("true", "null"), NanoUsd(950_000_000));
}

#[test]
fn an_unpriced_answer_says_so() {
    for usage in [r#"{"prompt_tokens":7}"#, r#"{"cost":null}"#, r#"{"cost":-1}"#, "null"] {
        let bill = bill(usage);
        assert!(!bill.priced && bill.completed, "{usage}");
        assert_eq!((bill.usage.cost, bill.usage.calls), (NanoUsd::ZERO, 1));
    }
}

#[test]
fn a_table_of_prices_fills_in_where_the_provider_says_nothing() {
    let price = ModelPrice {
        prompt: NanoUsd(1_000_000_000),
        completion: NanoUsd(2_000_000_000),
        image: NanoUsd(40_000_000),
        image_prompt: Some(NanoUsd(3_000_000_000)),
        audio_prompt: None,
        audio_minute: NanoUsd(6_000_000),
        search: Some(NanoUsd(10_000_000)),
        cache_read: Some(NanoUsd(100_000_000)),
        cache_write: Some(NanoUsd(1_250_000_000)),
    };
    let cost = |body: &str| read_bill(body.as_bytes()).unwrap().at(Some(&price)).usage.cost.0;
    let tokens = r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}"#;
    assert_eq!(cost(tokens), 10_000 + 4_000);
    let kept = r#"{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":0,
        "prompt_tokens_details":{"cached_tokens":800,"cache_write_tokens":100}}}"#;
    assert_eq!(cost(kept), 100 * 1_000 + 800 * 100 + 100 * 1_250);
    let own = r#"{"choices":[],"usage":{"prompt_tokens":10,"cost":0.5}}"#;
    assert_eq!(cost(own), 500_000_000);
    assert_eq!(cost(r#"{"data":[{"b64_json":"x"},{"b64_json":"y"}]}"#), 80_000_000);
    assert_eq!(cost(r#"{"text":"hi","usage":{"type":"duration","seconds":30}}"#), 3_000_000);
    assert_eq!(cost(r#"{"text":"hi","duration":59.2}"#), 6_000_000);
    // gpt-4o-transcribe bills tokens, however long the recording was.
    let tokens_of_sound = r#"{"text":"hi","duration":59.2,"usage":{"type":"tokens","input_tokens":14,"output_tokens":45,
        "input_token_details":{"text_tokens":0,"audio_tokens":14},"total_tokens":59}}"#;
    assert_eq!(cost(tokens_of_sound), 14 * 1_000 + 45 * 2_000);
    let dearer = ModelPrice { audio_prompt: Some(NanoUsd(6_000_000_000)), ..price };
    let bill = read_bill(tokens_of_sound.as_bytes()).unwrap().at(Some(&dearer));
    assert_eq!(bill.usage.cost.0, 14 * 6_000 + 45 * 2_000, "sound has a price of its own");
    let by_minute = ModelPrice { audio_minute: NanoUsd(6_000_000), ..ModelPrice::default() };
    let bill = read_bill(tokens_of_sound.as_bytes()).unwrap().at(Some(&by_minute));
    assert_eq!(bill.usage.cost, NanoUsd(6_000_000), "where only minutes have a price");
    let of_mistral = r#"{"model":"voxtral-mini-2507","text":"hi","language":"en","segments":[],
        "usage":{"prompt_audio_seconds":20,"prompt_tokens":4,"total_tokens":635,"completion_tokens":27}}"#;
    let bill = read_bill(of_mistral.as_bytes()).unwrap().at(Some(&by_minute));
    assert_eq!(bill.usage.cost, NanoUsd(2_000_000), "by its length, and not by its bytes");
    // OpenAI's images: words, images that were sent, and the tokens of those that were made.
    let made = r#"{"created":1,"data":[],"usage":{"total_tokens":1380,"input_tokens":323,"output_tokens":1057,
        "input_tokens_details":{"text_tokens":13,"image_tokens":310}}}"#;
    assert_eq!(cost(made), 13 * 1_000 + 310 * 3_000 + 1_057 * 2_000);
    let drawn = r#"{"choices":[{"message":{"images":[{"image_url":{"url":"data:"}}]}}]}"#;
    assert_eq!((read_bill(drawn.as_bytes()).unwrap().images, cost(drawn)), (1, 40_000_000));
    let search = ProviderBill { searches: 1, ..read_bill(tokens.as_bytes()).unwrap() };
    assert_eq!(search.at(Some(&price)).usage.cost.0, 14_000 + 10_000_000);
    let unnamed = ModelPrice { search: None, ..price };
    assert_eq!(search.at(Some(&unnamed)).usage.cost.0, 14_000 + 40_000_000);
}

#[test]
fn sounds_in_a_chat_and_what_is_kept_for_an_hour_have_prices_of_their_own() {
    let price = ModelPrice {
        prompt: NanoUsd(3_000_000_000),
        completion: NanoUsd(15_000_000_000),
        audio_prompt: Some(NanoUsd(40_000_000_000)),
        cache_read: Some(NanoUsd(300_000_000)),
        cache_write: Some(NanoUsd(3_750_000_000)),
        ..ModelPrice::default()
    };
    let cost = |usage: &str| bill(usage).at(Some(&price)).usage.cost.0;
    let heard = r#"{"prompt_tokens":120,"completion_tokens":10,"total_tokens":130,
        "prompt_tokens_details":{"audio_tokens":100,"text_tokens":20,"cached_tokens":0}}"#;
    assert_eq!(cost(heard), 20 * 3_000 + 100 * 40_000 + 10 * 15_000);
    let kept = 100 * 3_000 + 700 * 300 + 50 * 3_750 + 150 * 6_000 + 90 * 15_000;
    for usage in [
        r#"{"input_tokens":100,"output_tokens":90,"cache_read_input_tokens":700,"cache_creation_input_tokens":200,
            "cache_creation":{"ephemeral_5m_input_tokens":50,"ephemeral_1h_input_tokens":150}}"#,
        r#"{"prompt_tokens":1000,"completion_tokens":90,"cache_read_input_tokens":700,"cache_creation_input_tokens":200,
            "prompt_tokens_details":{"cached_tokens":700,
            "cache_creation_token_details":{"ephemeral_5m_input_tokens":50,"ephemeral_1h_input_tokens":150}}}"#,
        r#"{"prompt_tokens":1000,"completion_tokens":90,"cache_read_input_tokens":700,"cache_creation_input_tokens":200,
            "claude_cache_creation_5_m_tokens":50,"claude_cache_creation_1_h_tokens":150}"#,
    ] {
        assert_eq!(cost(usage), kept, "{usage}");
    }
    for odd in ["null", "[1]", "7", r#"{"ephemeral_1h_input_tokens":"x"}"#] {
        let usage =
            format!(r#"{{"prompt_tokens":7,"completion_tokens":3,"cache_creation":{odd}}}"#);
        assert_eq!(cost(&usage), 7 * 3_000 + 3 * 15_000, "{odd}");
    }
}

#[test]
fn a_search_in_anthropics_own_words_is_billed_by_tokens_and_searches() {
    let answer = br#"{"type":"message","content":[{"type":"text","text":"an \"error\""}],"stop_reason":"end_turn",
        "usage":{"input_tokens":6039,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":931,
        "server_tool_use":{"web_search_requests":1}}}"#;
    let bill = read_bill(answer).unwrap();
    assert!(bill.completed && bill.reported && !bill.priced);
    assert_eq!(find_failure(answer), None);
    let price = ModelPrice {
        prompt: NanoUsd(1_000_000_000),
        completion: NanoUsd(5_000_000_000),
        search: Some(NanoUsd(10_000_000)),
        ..ModelPrice::default()
    };
    let bill = ProviderBill { searches: 1, ..bill }.at(Some(&price));
    assert_eq!(bill.usage.cost.0, 6_039_000 + 4_655_000 + 10_000_000);
    let failed = br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert!(!read_bill(failed).unwrap().completed);
}

#[test]
fn a_figure_of_an_odd_form_hides_no_other_and_no_answer() {
    for usage in [
        r#"{"prompt_tokens":7.0,"completion_tokens":"3"}"#,
        r#"{"prompt_tokens":7,"completion_tokens":3,"input_tokens":-1,"seconds":"a","is_byok":"no","cost":[]}"#,
    ] {
        let TokenUsage { prompt_tokens, completion_tokens, .. } = bill(usage).usage;
        assert_eq!((prompt_tokens, completion_tokens), (7, 3), "{usage}");
    }
    let kept = bill(
        r#"{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":80,"image_tokens":"none"}}"#,
    );
    assert_eq!(kept.usage.cached_tokens, 80);
    for odd in [r#""usage":"none""#, r#""usage":[1]"#, r#""usage":7,"duration":"x","data":{}"#] {
        let answer = format!(r#"{{"choices":[{{"a":1}}],{odd}}}"#);
        assert!(read_bill(answer.as_bytes()).is_some_and(|bill| bill.completed), "{odd}");
    }
}

#[test]
fn failures_in_disguise_are_noticed() {
    let bill = read_bill(br#"{"error":{"code":502,"message":"no provider"}}"#).unwrap();
    assert!(!bill.completed);
    assert!(!read_bill(br#"{"choices":null}"#).unwrap().completed);
    assert_eq!(read_bill(b"<html>"), None);
    assert_eq!(read_bill(b"[]"), None);
}

#[test]
fn an_error_in_an_answer_is_found_where_no_words_came() {
    let of = |body: &str| find_failure(body.as_bytes()).map(|told| (told.status, told.text));
    let told = of(r#"{"error":{"code":"502","message":"no provider"}}"#);
    assert_eq!(told, Some((Some(502), "no provider".to_owned())));
    let inside = r#"{"choices":[{"finish_reason":"error","error":{"code":503,"message":"gone"},
        "message":{"role":"assistant","content":"TEXT"}}]}"#;
    let told = of(&inside.replace("TEXT", ""));
    assert_eq!(told, Some((Some(503), "gone".to_owned())));
    assert_eq!(of(&inside.replace("TEXT", "half of it")), None, "the agent reads it");
    let silent = r#"{"choices":[{"finish_reason":"error","message":{"content":null}}]}"#;
    assert_eq!(of(silent), Some((None, String::new())));
    for fine in [
        r#"{"choices":[{"finish_reason":"stop","message":{"content":"\"error\""}}],"error":null}"#,
        r#"{"choices":[{"finish_reason":"stop","message":{"content":""},"error":null}]}"#,
    ] {
        assert_eq!(of(fine), None, "{fine}");
    }
}
