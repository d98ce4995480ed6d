//! Refusals for the sake of an account, of its rights, and of what a model wrote.

use super::*;

fn check(refusals: &[(u16, &str, AnswerVerdict)]) {
    for (status, body, verdict) in refusals {
        assert_eq!(judged(*status, NOTHING, body).verdict, *verdict, "{status} {body}");
    }
}

#[test]
fn a_limit_of_a_minute_is_told_from_an_empty_account() {
    let google = |limit: &str| {
        format!(
            r#"[{{"error":{{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits. \n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: {limit}, model: gemini-2.5-flash\nPlease retry in 36.6s.","status":"RESOURCE_EXHAUSTED"}}}}]"#
        )
    };
    let busy = judged(429, NOTHING, &google("20"));
    assert_eq!((busy.verdict, busy.after), (Again, Some(Duration::from_millis(36_600))));
    assert_eq!(judged(429, NOTHING, &google("0")).verdict, Credit, "it has none at all");
    check(&[
        (
            429,
            r#"{"error":{"code":429,"message":"Resource exhausted. Please try again later.","status":"RESOURCE_EXHAUSTED"}}"#,
            Again,
        ),
        (
            429,
            r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"provider_name":"Google","raw":"{\"error\":{\"code\":429,\"message\":\"You exceeded your current quota\",\"status\":\"RESOURCE_EXHAUSTED\"}}"}}}"#,
            Again,
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
            Credit,
        ),
    ]);
}

#[test]
fn a_limit_says_when_it_ends_wherever_it_is_told() {
    // Forty seconds from now.
    const RESET: u64 = 1_795_341_640_000;
    let free = |reset: u64| {
        format!(
            r#"{{"error":{{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day","code":429,"metadata":{{"headers":{{"X-RateLimit-Limit":"50","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"{reset}"}},"limit_source":"openrouter_free_tier_daily"}}}}}}"#
        )
    };
    let limited = |body: &str| {
        let outer = judged(429, NOTHING, body);
        let answer: serde_json::Value = serde_json::from_str(body).unwrap();
        // In the middle of a stream, whose status is 200.
        let inner = classify_inner(complaint::complaint_of(&answer["error"]), NOW.parse().unwrap());
        assert_eq!((outer.verdict, inner.verdict), (Again, Again), "{body}");
        assert_eq!(outer.after, inner.after, "{body}");
        outer.after.map(|wait| wait.as_secs())
    };
    assert_eq!(limited(&free(RESET)), Some(40));
    assert_eq!(limited(&free(RESET + 86_400_000)), Some(3_600), "nobody waits for longer");
    assert_eq!(limited(&free(RESET - 86_400_000)), None, "it is past");
    let worded =
        r#"{"error":{"message":"Rate limit reached. Please try again in 1m30s.","code":429}}"#;
    assert_eq!(limited(worded), Some(90));
}

#[test]
fn minimax_tells_of_failures_beside_a_status_of_success() {
    for (code, verdict) in [
        (1002, Again),
        (1004, Key),
        (1008, Credit),
        (1026, Content),
        (1033, Again),
        (2013, Request),
        (2049, Key),
    ] {
        let body = format!(
            r#"{{"choices":null,"base_resp":{{"status_code":{code},"status_msg":"m ({code})"}}}}"#
        );
        let failure = crate::billing::find_failure(body.as_bytes()).unwrap();
        let refusal = classify_inner(failure, NOW.parse().unwrap());
        assert_eq!((refusal.verdict, refusal.said), (verdict, format!("m ({code})")));
    }
    let done = r#"{"choices":[{"message":{"content":"a"}}],"base_resp":{"status_code":0,"status_msg":""}}"#;
    assert_eq!(crate::billing::find_failure(done.as_bytes()), None);
}

#[test]
fn an_account_that_is_not_paid_for_says_so_in_many_words() {
    check(&[
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}"#,
            Credit,
        ),
        (
            400,
            r#"{"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","param":null,"code":"billing_hard_limit_reached"}}"#,
            Credit,
        ),
        (
            429,
            r#"{"error":{"message":"Your account is not active, please check your billing details on our website.","type":"billing_not_active","param":null,"code":"billing_not_active"}}"#,
            Credit,
        ),
        (
            403,
            r#"{"code":"The caller does not have permission to execute the specified operation","error":"Your newly created team doesn't have any credits yet. You can purchase credits on https://console.x.ai."}"#,
            Credit,
        ),
        (
            429,
            r#"{"error":"Your team has either used all available credits or reached its monthly spending limit."}"#,
            Credit,
        ),
        (
            429,
            r#"{"error":{"message":"Your account is suspended, please check your plan and billing details","type":"exceeded_current_quota_error"}}"#,
            Credit,
        ),
        (
            412,
            r#"{"error":{"message":"Account x is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices.","type":"error"}}"#,
            Credit,
        ),
        (
            400,
            r#"{"error":{"message":"Access denied, please make sure your account is in good standing.","type":"Arrearage","code":"Arrearage"}}"#,
            Credit,
        ),
        (
            400,
            r#"{"error":{"message":"Budget has been exceeded! Current cost: 26.075, Max budget: 0.25","type":"budget_exceeded","param":null,"code":"400"}}"#,
            Credit,
        ),
        (
            403,
            r#"{"error":{"message":"The free tier of the model has been exhausted. If you wish to continue access the model on a paid basis, please disable the \"use free tier only\" mode in the management console.","type":"AllocationQuota.FreeTierOnly","param":null,"code":"AllocationQuota.FreeTierOnly"}}"#,
            Credit,
        ),
        (
            403,
            r#"{"error":{"message":"You've reached your usage limit for this billing cycle"}}"#,
            Credit,
        ),
        (
            500,
            r#"{"type":"error","error":{"type":"api_error","message":"insufficient balance (1008)"}}"#,
            Credit,
        ),
    ]);
}

#[test]
fn a_key_that_lacks_a_right_is_not_a_wrong_one() {
    check(&[
        (
            403,
            r#"{"Message":"User: arn:aws:iam::1:user/x is not authorized to perform: bedrock:InvokeModel on resource: y because no identity-based policy allows the bedrock:InvokeModel action"}"#,
            Forbidden,
        ),
        (
            404,
            r#"{"message":"Model use case details have not been submitted for this account. Fill out the Anthropic use case details form before using the model. If you have already filled out the form, try again in 15 minutes."}"#,
            Forbidden,
        ),
        (
            401,
            r#"{"error":{"code":"access_denied","message":"openai.gpt-5.6-sol is not available for this account.","type":"permission_denied_error"}}"#,
            Forbidden,
        ),
        (
            403,
            r#"{"error":{"message":"Access to model denied. Please make sure you are eligible for using the model.","type":"AccessDenied.Unpurchased","code":"AccessDenied.Unpurchased"}}"#,
            Forbidden,
        ),
        (
            403,
            r#"{"error":{"code":"403","message":"Access denied due to Virtual Network/Firewall rules."}}"#,
            Strange,
        ),
        (
            403,
            r#"{"error":{"code":"403","message":"Public access is disabled. Please configure private endpoint."}}"#,
            Strange,
        ),
        (
            403,
            r#"{"error":{"message":"Project `proj_x` does not have access to model `gpt-5.6`","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
            Forbidden,
        ),
        (
            401,
            r#"{"error":{"message":"You have insufficient permissions for this operation. Missing scopes: model.request.","type":"invalid_request_error"}}"#,
            Forbidden,
        ),
        (
            404,
            r#"{"error":{"message":"Your organization must be verified to use the model `o3`.","type":"invalid_request_error","code":"model_not_found"}}"#,
            Forbidden,
        ),
        (
            403,
            r#"{"message":"You don't have access to the model with the specified model ID."}"#,
            Forbidden,
        ),
        (
            401,
            r#"{"error":{"message":"key not allowed to access model. This key can only access models=['a']. Tried to access b","type":"key_model_access_denied","param":"model","code":"401"}}"#,
            Forbidden,
        ),
        (
            403,
            r#"{"error":{"code":403,"message":"Your API key was reported as leaked. Please use another API key.","status":"PERMISSION_DENIED"}}"#,
            Key,
        ),
    ]);
}

#[test]
fn a_model_of_another_api_is_told_from_one_that_nobody_knows() {
    check(&[
        (
            404,
            r#"{"error":{"message":"This model is only supported in v1/responses and not in v1/chat/completions.","type":"invalid_request_error","param":"model","code":null}}"#,
            OtherApi,
        ),
        (
            404,
            r#"{"error":{"message":"This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?","type":"invalid_request_error","param":"model","code":null}}"#,
            OtherApi,
        ),
        (
            400,
            r#"{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the specified model, gpt-5.1-codex. Please choose different model and try again."}}"#,
            OtherApi,
        ),
        (400, r#"{"message":"The provided model identifier is invalid."}"#, UnknownModel),
        (
            400,
            r#"{"message":"Invocation of model ID anthropic.claude-x with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model."}"#,
            UnknownModel,
        ),
    ]);
}

#[test]
fn what_a_model_wrote_wrongly_may_be_right_the_next_time() {
    let failed = r#"{"message":"Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=x"}"#;
    assert_eq!(judged(400, NOTHING, &format!(r#"{{"error":{failed}}}"#)).verdict, Unanswered);
    let inner = |error: &str| {
        let complaint = complaint::complaint_of(&serde_json::from_str(error).unwrap());
        classify_inner(complaint, NOW.parse().unwrap())
    };
    assert_eq!(inner(failed).verdict, Unanswered);
    check(&[
        (
            500,
            r#"{"error":{"code":500,"message":"Failed to parse input at pos 144: <tool_call>\n<function=write> insufficient credits, maximum context length","type":"server_error"}}"#,
            Unanswered,
        ),
        (
            500,
            r#"{"error":{"message":"error parsing tool call: raw='{\"path\":', err=unexpected end of JSON input","type":"api_error"}}"#,
            Unanswered,
        ),
    ]);
    // Of a server that has too much to do, in the middle of a stream.
    let overloaded = r#"{"type":"service_unavailable_error","code":"server_is_overloaded","message":"Our servers are currently overloaded. Please try again later."}"#;
    assert_eq!(inner(overloaded).verdict, Again);
}

#[test]
fn content_that_does_not_pass_is_no_fault_of_the_key_or_the_request() {
    check(&[
        (
            403,
            r#"{"code":"The caller does not have permission to execute the specified operation","error":"Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"}"#,
            Content,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}"#,
            Content,
        ),
        (
            400,
            r#"{"error":{"message":"litellm.ContextWindowExceededError: BedrockException - x","type":null,"code":"400"}}"#,
            Overflow,
        ),
    ]);
}
