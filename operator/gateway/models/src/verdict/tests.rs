//! Refusals as providers word them.

mod accounts;

use super::AnswerVerdict::*;
use super::*;

const NOTHING: &[(&str, &str)] = &[];
const NOW: &str = "2026-11-22T10:00:00Z";

fn judged(status: u16, headers: &[(&'static str, &str)], body: &str) -> ModelRefusal {
    let headers = headers.iter().map(|(name, value)| {
        (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap())
    });
    classify_answer(status, &headers.collect(), body.as_bytes(), NOW.parse().unwrap())
}

/// Status, body, and what it means.
const REFUSALS: &[(u16, &str, AnswerVerdict)] = &[
    // The conversation is too long.
    (
        400,
        r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 129015 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        Overflow,
    ),
    (
        400,
        r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","code":"context_length_exceeded"}}"#,
        Overflow,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}"#,
        Overflow,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"}}"#,
        Overflow,
    ),
    (
        400,
        r#"{"error":{"message":"This endpoint's maximum context length is 262144 tokens. However, you requested about 300000 tokens (280000 of text input, 4000 of tool input, 16000 in the output).","code":400,"metadata":{"error_type":"context_length_exceeded","provider_name":null}}}"#,
        Overflow,
    ),
    (
        400,
        r#"[{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#,
        Overflow,
    ),
    (400, r#"{"message":"Input is too long for requested model."}"#, Overflow),
    // A tool's description is, and no shorter conversation helps.
    (
        400,
        r#"{"error":{"message":"Invalid 'tools[13].function.description': string too long. Expected a string with maximum length 1024, but got a string with length 1103 instead.","type":"invalid_request_error","param":"tools[13].function.description","code":"string_above_max_length"}}"#,
        Request,
    ),
    (
        400,
        r#"{"error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}"#,
        Overflow,
    ),
    (
        400,
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error"}}"#,
        Overflow,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}"#,
        Overflow,
    ),
    (
        400,
        r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144","type":"invalid_request_error"}}"#,
        Overflow,
    ),
    (
        400,
        r#"{"object":"error","message":"'max_tokens' or 'max_completion_tokens' is too large: 16000. This model's maximum context length is 32768 tokens and your request has 20000 input tokens (16000 > 32768 - 20000).","type":"BadRequestError","code":400}"#,
        Overflow,
    ),
    (
        400,
        r#"{"object":"error","message":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length","type":"invalid_request_error"}"#,
        Overflow,
    ),
    (400, r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#, Overflow),
    (
        400,
        r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 1 tokens > 0 maximum\"}}","provider_name":"Anthropic"}}}"#,
        Overflow,
    ),
    (413, "<html><head><title>413 Request Entity Too Large</title></head></html>", Overflow),
    (
        413,
        r#"{"error":{"message":"Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.","code":"rate_limit_exceeded"}}"#,
        Overflow,
    ),
    (
        429,
        r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.","code":"rate_limit_exceeded"}}"#,
        Overflow,
    ),
    // The content.
    (
        403,
        r#"{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged","metadata":{"reasons":["violence"],"flagged_input":"…","provider_name":"X"}}}"#,
        Content,
    ),
    (
        400,
        r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
        Content,
    ),
    (
        400,
        r#"{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","code":"invalid_prompt"}}"#,
        Content,
    ),
    (
        400,
        r#"{"error":{"message":"Content Exists Risk","type":"invalid_request_error","code":"invalid_request_error"}}"#,
        Content,
    ),
    (
        400,
        r#"{"error":{"message":"Input data may contain inappropriate content.","code":"data_inspection_failed"}}"#,
        Content,
    ),
    // The key.
    (401, r#"{"error":{"message":"User not found.","code":401}}"#, Key),
    (401, "", Key),
    (403, r#"{"error":{"message":"Forbidden","code":403}}"#, Key),
    (
        400,
        r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]"#,
        Key,
    ),
    (
        403,
        r#"{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported"}}"#,
        Strange,
    ),
    // The money.
    (
        402,
        r#"{"error":{"message":"Insufficient credits. Add more using https://openrouter.ai/settings/credits","code":402}}"#,
        Credit,
    ),
    (
        402,
        r#"{"error":{"message":"This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 30104. To increase, visit …","code":402}}"#,
        Affordable(30_104),
    ),
    (
        402,
        r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
        Credit,
    ),
    (
        403,
        r#"{"error":{"message":"Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys","code":403}}"#,
        Credit,
    ),
    (
        429,
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        Credit,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
        Credit,
    ),
    (
        402,
        r#"{"error":{"message":"Too many requests in flight","code":402,"metadata":{"limit_source":"openrouter_in_flight_budget"}}}"#,
        Again,
    ),
    // The model.
    (
        400,
        r#"{"error":{"message":"anthropic/claude-opus-4-6 is not a valid model ID","code":400}}"#,
        UnknownModel,
    ),
    (
        404,
        r#"{"error":{"message":"The model `gpt-9` does not exist or you do not have access to it.","type":"invalid_request_error","code":"model_not_found"}}"#,
        UnknownModel,
    ),
    (404, r#"{"error":{"message":"No endpoints found for x/y.","code":404}}"#, UnknownModel),
    (
        400,
        r#"{"error":{"message":"Model Not Exist","code":"invalid_request_error"}}"#,
        UnknownModel,
    ),
    (404, r#"{"error":"model 'qwen9' not found"}"#, UnknownModel),
    (
        404,
        r#"{"error":{"message":"No endpoints found that support tool use. Try disabling \"Bash\".","code":404}}"#,
        NoTools,
    ),
    (
        400,
        r#"{"error":{"message":"registry.ollama.ai/library/gemma3:4b does not support tools","type":"api_error"}}"#,
        NoTools,
    ),
    (
        400,
        r#"{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","code":400}"#,
        NoTools,
    ),
    (
        404,
        r#"{"error":{"message":"No endpoints found that support image input","code":404}}"#,
        NoPictures,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes"}}"#,
        BadPicture,
    ),
    (400, r#"{"error":{"message":"m","code":"image_parse_error"}}"#, BadPicture),
    (
        400,
        r#"{"object":"error","message":"At most 1 image(s) may be provided in one prompt.","type":"BadRequestError","code":400}"#,
        BadPicture,
    ),
    (500, r#"{"message":"cannot identify image file <_io.BytesIO object at 0x7f>"}"#, BadPicture),
    (400, r#"{"error":{"message":"This model does not support image format bmp"}}"#, BadPicture),
    (
        404,
        r#"{"error":{"message":"No endpoints found matching your data policy. Configure: https://openrouter.ai/settings/privacy","code":404}}"#,
        DataPolicy,
    ),
    (
        404,
        r#"{"error":{"message":"No endpoints available matching your guardrail restrictions and data policy.","code":404}}"#,
        DataPolicy,
    ),
    (
        404,
        r#"{"error":{"message":"No endpoints found that can handle the requested parameters.","code":404}}"#,
        NoParameters,
    ),
    (
        404,
        r#"{"error":{"message":"No allowed providers are available for the selected model.","code":404}}"#,
        NoProvider,
    ),
    // The answer's length, and the request.
    (
        400,
        r#"{"error":{"message":"max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.","param":"max_tokens"}}"#,
        AnswerTooLong,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-opus"}}"#,
        AnswerTooLong,
    ),
    (
        422,
        r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","usage"],"msg":"Extra inputs are not permitted"}]}}"#,
        Request,
    ),
    (
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.3.content.0: Invalid `signature` in `thinking` block"}}"#,
        Request,
    ),
    // A form that a server does not take, which some call an outage.
    (
        500,
        r#"{"error":{"message":"7 validation errors: {'type': 'literal_error', 'loc': ('body', 'messages'), 'msg': 'Input should be a valid string'}","type":"internal_server_error","param":null,"code":null}}"#,
        Request,
    ),
    (
        500,
        r#"{"error":{"message":"can only concatenate str (not \"list\") to str","type":"internal_server_error"}}"#,
        Request,
    ),
    (500, r#"{"detail":"'NoneType' object has no attribute 'strip'"}"#, Request),
    (
        500,
        r#"{"error":{"code":500,"message":"Failed to parse tool call arguments as JSON","type":"server_error"}}"#,
        Request,
    ),
    (501, r#"{"error":{"code":501,"message":"m","type":"not_supported_error"}}"#, Request),
    (
        500,
        r#"{"error":{"message":"Invalid type for 'messages[1].content'","type":"invalid_request_error"}}"#,
        Request,
    ),
    (412, r#"{"error":{"code":412,"message":"m"}}"#, Request),
    (
        500,
        r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#,
        NoTools,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}"#,
        NoPictures,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"Unable to generate parser for this template. … Jinja Exception: Conversation roles must alternate user/assistant/…","type":"invalid_request_error"}}"#,
        Template,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"Tool call IDs should be alphanumeric strings with length 9!","type":"server_error"}}"#,
        Template,
    ),
    (
        422,
        r#"{"error":"Template error: invalid operation: Conversation roles must alternate","error_type":"template_error"}"#,
        Template,
    ),
    (
        422,
        r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000","error_type":"validation"}"#,
        Overflow,
    ),
    (
        400,
        r#"{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}"#,
        Overflow,
    ),
    (
        500,
        r#"{"error":"model requires more system memory (5.5 GiB) than is available (3.1 GiB)"}"#,
        TooSmall,
    ),
    (
        404,
        r#"{"error":"No models loaded. Please load a model in the developer page."}"#,
        UnknownModel,
    ),
    // No model API.
    (404, "<!DOCTYPE html><html><head><title>404 Not Found</title></head></html>", WrongAddress),
    (403, "<html><head><title>Access denied</title></head></html>", WrongAddress),
    (302, "<html><head><title>302 Found</title></head></html>", WrongAddress),
    (404, r#"{"detail":"Not Found"}"#, WrongAddress),
    (404, "404 page not found", WrongAddress),
    (405, r#"{"detail":"Method Not Allowed"}"#, WrongAddress),
    (502, "<html><head><title>502 Bad Gateway</title></head></html>", Again),
    (401, "<html><head><title>401 Authorization Required</title></head></html>", Key),
    // Refusals that pass by themselves.
    (503, r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#, Again),
    (500, r#"{"error":"llama runner process has terminated: exit status 2"}"#, Again),
    (
        429,
        r#"{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day","code":429}}"#,
        Again,
    ),
    (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Again),
    (
        502,
        r#"{"error":{"message":"Provider returned error","code":502,"metadata":{"error_type":"provider_unavailable"}}}"#,
        Again,
    ),
    (503, "", Again),
    (500, "<html>", Again),
    (
        400,
        r#"{"error":{"message":"try later","code":400,"metadata":{"error_type":"provider_overloaded"}}}"#,
        Again,
    ),
    // Answers that may have been billed.
    (524, "<html><head><title>A timeout occurred</title></head></html>", Unanswered),
    (520, "", Unanswered),
    // Answers that nobody expects.
    (301, "", Strange),
    (418, "", Strange),
];

#[test]
fn refusals_are_told_apart_by_what_they_say() {
    for (status, body, verdict) in REFUSALS {
        let refusal = judged(*status, NOTHING, body);
        assert_eq!(refusal.verdict, *verdict, "{status} {body}");
    }
}

#[test]
fn when_to_ask_again_is_in_the_header_or_the_body() {
    let busy = judged(429, &[("retry-after", "17")], r#"{"error":{"retry_after":3}}"#);
    assert_eq!((busy.verdict, busy.after), (Again, Some(Duration::from_secs(17))));
    let told = r#"{"error":{"message":"m","code":503,"availability":{"code":"no_capacity","retry_after":9}}}"#;
    assert_eq!(judged(503, NOTHING, told).after, Some(Duration::from_secs(9)));
    let unpaid = r#"{"error":{"message":"Payment required","code":402}}"#;
    assert_eq!(judged(402, &[("retry-after", "5")], unpaid).verdict, Again);
    assert_eq!(judged(402, NOTHING, unpaid).verdict, Credit);
}

#[test]
fn an_error_inside_an_answer_counts_by_its_own_code() {
    for (error, verdict) in [
        (r#"{"code":502,"message":"Network connection lost."}"#, Again),
        (r#"{"code":"429","message":"slow down"}"#, Again),
        (r#"{"code":408,"message":"timeout"}"#, Again),
        (r#"{"code":400,"message":"prompt is too long"}"#, Overflow),
        (r#"{"code":403,"message":"m","metadata":{"reasons":["x"]}}"#, Content),
        (r#"{"code":401,"message":"No auth credentials found"}"#, Key),
        (r#"{"code":"server_error","message":"The server had an error"}"#, Again),
        (r#"{"code":520,"message":"odd"}"#, Unanswered),
        (r#"{"message":"something went wrong"}"#, Unanswered),
        (r#""something went wrong""#, Unanswered),
        ("{}", Unanswered),
        (r#"{"code":400,"message":"Invalid `signature` in `thinking` block"}"#, Request),
        (r#""7 validation errors: literal_error""#, Request),
        (r#"{"message":"m","type":"invalid_request_error"}"#, Request),
        (
            r#""Unexpected endpoint or method. (POST /chat/completions). Returning 200 anyway""#,
            WrongAddress,
        ),
    ] {
        let complaint = complaint::complaint_of(&serde_json::from_str(error).unwrap());
        assert_eq!(classify_inner(complaint, NOW.parse().unwrap()).verdict, verdict, "{error}");
    }
}

/// Each error type that OpenRouter declares has its meaning, whatever its status; the list was
/// taken from the provider's own types.
#[test]
fn every_declared_error_type_has_its_meaning() {
    let declared = include_str!("../../../../../tests/corpus/openrouter-types.json");
    let declared: serde_json::Value = serde_json::from_str(declared).unwrap();
    let types: Vec<String> = serde_json::from_value(declared["ApiErrorType"].clone()).unwrap();
    assert_eq!(types.len(), 27);
    for kind in types {
        let expected = match kind.as_str() {
            "context_length_exceeded"
            | "token_limit_exceeded"
            | "string_too_long"
            | "payload_too_large" => Overflow,
            "max_tokens_exceeded" => AnswerTooLong,
            "authentication" => Key,
            "permission_denied" => Forbidden,
            "payment_required" => Credit,
            "rate_limit_exceeded"
            | "provider_overloaded"
            | "provider_unavailable"
            | "server"
            | "timeout" => Again,
            "invalid_request" | "precondition_failed" | "unprocessable" | "unmapped" => Request,
            "invalid_prompt" | "content_policy_violation" | "refusal" => Content,
            "not_found" => UnknownModel,
            "invalid_image"
            | "image_too_large"
            | "image_too_small"
            | "unsupported_image_format"
            | "image_not_found"
            | "image_download_failed" => BadPicture,
            unknown => panic!("nothing is known of the error type `{unknown}`"),
        };
        let error = format!(
            r#"{{"code":400,"message":"Provider returned error","metadata":{{"error_type":"{kind}"}}}}"#
        );
        let body = format!(r#"{{"error":{error}}}"#);
        assert_eq!(judged(400, NOTHING, &body).verdict, expected, "{kind}");
        let inner = complaint::complaint_of(&serde_json::from_str(&error).unwrap());
        assert_eq!(
            classify_inner(inner, NOW.parse().unwrap()).verdict,
            expected,
            "{kind} inside an answer"
        );
    }
}

#[test]
fn who_may_not_is_told_from_a_key_that_is_wrong() {
    let denied = r#"{"error":{"code":403,"message":"Provider returned error","metadata":{"error_type":"permission_denied"}}}"#;
    assert_eq!(judged(403, NOTHING, denied).verdict, Forbidden);
    let words = r#"{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}"#;
    assert_eq!(judged(403, NOTHING, words).verdict, Forbidden);
    let flagged = r#"{"error":{"code":403,"message":"m","metadata":{"error_type":"content_policy_violation","reasons":["x"]}}}"#;
    assert_eq!(judged(403, NOTHING, flagged).verdict, Content);
}

#[test]
fn a_window_is_told_of_a_conversation_that_is_too_long_and_of_nothing_else() {
    let body = |kind: &str| {
        format!(r#"{{"error":{{"code":400,"message":"m","type":"{kind}","n_ctx":2048}}}}"#)
    };
    assert_eq!(judged(400, NOTHING, &body("exceed_context_size_error")).window, Some(2_048));
    assert_eq!(judged(400, NOTHING, &body("invalid_request_error")).window, None);
}
