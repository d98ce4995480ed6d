//! Words and codes in which providers refuse. Pure.

pub(super) const OVERFLOW_KINDS: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "model_context_window_exceeded",
    "exceed_context_size_error",
    "request_too_large",
    "payload_too_large",
    "token_limit_exceeded",
    "string_too_long",
    "string_above_max_length",
];

/// Words about a tool whose description is too long: the conversation is not.
pub(super) const LONG_TOOL: &[&str] =
    &[".description': string too long", "function.description' is too long"];

/// Words that say that the prompt does not fit, each of another provider.
pub(super) const OVERFLOW: &[&str] = &[
    "maximum context length",
    "max context length",
    "model's context length",
    "context length is only",
    "context_length_exceeded",
    "context length exceeded",
    "exceeds the context window",
    "exceed context limit",
    "exceeds the available context size",
    "exceeds the model's context",
    "exceeds context length",
    "context window exceeds limit",
    "greater than the context length",
    "larger than the context",
    "context window is full",
    "prompt is too long",
    "prompt too long",
    "prompt exceeds max length",
    "maximum prompt length",
    "maximum model length",
    "exceeded model token limit",
    "max tokens allowed",
    "maximum number of tokens allowed",
    "reduce the length of the messages",
    "reduce your prompt",
    "too large for model with",
    "range of input length should be",
    "context length of only",
    "tokens + `max_new_tokens` must be <=",
    "`inputs` must have less than",
    "exceed context window of",
    "too many tokens: ",
    "prompt token count of",
    "token limit exceeded",
    "contextwindowexceedederror",
    "request entity too large",
];

/// Words that mean an overflow beside the word `input`.
pub(super) const INPUT_TOO_LONG: &[&str] =
    &["too long", "tokens exceed", "length exceeds", "exceeds the maximum", "exceeds the limit of"];

pub(super) const ANSWER: &[&str] = &[
    "max_tokens is too large",
    "max_completion_tokens is too large",
    "maximum allowed number of output tokens",
    "max_tokens` must be less than or equal",
    "max_tokens must be less than or equal",
    "valid range of max_tokens",
];

pub(super) const CONTENT_KINDS: &[&str] = &[
    "flagged",
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "refusal",
    "invalid_prompt",
    "data_inspection_failed",
    "datainspectionfailed",
    "prohibited_content",
    "sensitive_words_detected",
    "moderation_blocked",
    "image_content_policy_violation",
    "cyber_policy_violation",
];

pub(super) const CONTENT: &[&str] = &[
    "requires moderation",
    "flagged as potentially violating",
    "content management policy",
    "content policy",
    "content exists risk",
    "prohibited_content",
    "blocked by guardrail",
    "violated a guardrail",
    "violates our usage policies",
    "inappropriate content",
    "rejected by the safety system",
    "rejected by our safety system",
    "content filtering policy",
    "violates usage guidelines",
    "has been flagged",
    "unsafe or sensitive content",
    "new_sensitive",
    "contentpolicyviolationerror",
];

pub(super) const CREDIT: &[&str] = &[
    "insufficient credit",
    "insufficient balance",
    "insufficient_quota",
    "exceeded your current quota",
    "credit balance is too low",
    "key limit exceeded",
    "more credits",
    "any credits",
    "billing hard limit",
    "account is not active",
    "your specified api usage limits",
    "spending limit",
    "spend alert threshold",
    "budget has been exceeded",
    "account is in good standing",
    "free tier of the model has been exhausted",
    "free quota has been exhausted",
    "usage limit for this billing cycle",
];

/// Codes of OpenAI, Moonshot, Groq, Alibaba and LiteLLM for an account that does not pay.
pub(super) const CREDIT_KINDS: &[&str] = &[
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "exceeded_current_quota_error",
    "blocked_api_access",
    "arrearage",
    "allocationquota.freetieronly",
    "budget_exceeded",
];

/// Words that a key is right and lacks a right: OpenAI's, LiteLLM's, Bedrock's, Alibaba's and Kimi's.
pub(super) const DENIED: &[&str] = &[
    "does not have access to model",
    "don't have access to the model",
    "missing scopes",
    "insufficient permissions",
    "must be verified to use",
    "not allowed to access model",
    "is not authorized to perform",
    "model access is denied",
    "use case details have not been submitted",
    "access to model denied",
    "only available for coding agents",
];

/// The last two are Bedrock's beside OpenAI's models, and Alibaba's.
pub(super) const DENIED_KINDS: &[&str] = &[
    "key_model_access_denied",
    "team_model_access_denied",
    "accessdeniedexception",
    "permission_denied_error",
    "accessdenied.unpurchased",
];

/// Words of servers that can't read the call which a model wrote: Groq's, llama.cpp's and Ollama's.
pub(super) const GENERATED: &[&str] = &[
    "failed to call a function",
    "tool call validation failed",
    "failed to parse input at pos",
    "error parsing tool call",
];

pub(super) const GENERATED_KINDS: &[&str] = &["tool_use_failed", "output_parse_failed"];

/// Words about a model that is served by OpenAI's Responses API alone; the last ones are Azure's.
pub(super) const OTHER_API: &[&str] = &[
    "only supported in v1/responses",
    "not a chat model",
    "not supported in the v1/chat/completions",
    "not accessible via the /chat/completions",
    "chatcompletion operation does not work with the specified model",
];

/// Error types of OpenRouter, and codes of OpenAI, for pictures that a model was to be shown.
pub(super) const PICTURE_KINDS: &[&str] = &[
    "invalid_image",
    "image_too_large",
    "image_too_small",
    "unsupported_image_format",
    "image_not_found",
    "image_download_failed",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "invalid_image_mode",
    "image_parse_error",
    "image_file_too_large",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
    "image_file_not_found",
];

/// Words about a picture that can't be used, or about too many: those of Anthropic, OpenAI, Google, vLLM and Python.
pub(super) const BAD_PICTURE: &[&str] = &[
    "could not process image",
    "unable to process input image",
    "image exceeds",
    "image dimensions exceed",
    "does not match the provided media type",
    "uploaded an unsupported image",
    "represent a valid image",
    "provided image is not valid",
    "unsupported image format",
    "support image format",
    "cannot identify image",
    "failed to load image",
    "failed to decode image",
    "image(s) may be provided",
    "too many images",
];

pub(super) const KEY_KINDS: &[&str] =
    &["authentication", "api_key_invalid", "invalid_api_key", "authentication_error"];

pub(super) const KEY: &[&str] = &[
    "api key not valid",
    "invalid api key",
    "incorrect api key",
    "user not found",
    "reported as leaked",
];

/// Azure's and LiteLLM's words.
pub(super) const LOOKUP_KEY: &[&str] = &["invalid subscription key", "invalid proxy server token"];

pub(super) const TOOLS: &[&str] = &[
    "support tool use",
    "does not support tools",
    "does not support function calling",
    "tools is not supported",
    "enable-auto-tool-choice",
    "requires --jinja",
    "cannot use tools with",
    "tool calling is not supported",
];

pub(super) const PICTURES: &[&str] = &[
    "support image input",
    "does not support image",
    "not support image",
    "not a multimodal model",
    "image input is not supported",
    "image_url is only supported",
    "provide the mmproj",
    "unknown variant `image_url`",
];

pub(super) const UNKNOWN: &[&str] = &[
    "not a valid model",
    "invalid model",
    "unknown model",
    "model not exist",
    "model_not_found",
    "model does not exist",
    "no such model",
    "model identifier is invalid",
    "on-demand throughput isn",
    "no models loaded",
];

pub(super) const UNKNOWN_KINDS: &[&str] = &["model_not_found", "not_found_error", "not_found"];

/// Whole texts with which servers say that they have nothing at a path.
pub(super) const NO_PATH: &[&str] =
    &["not found", "404 page not found", "file not found", "method not allowed", "no such route"];

/// Words about where somebody is, which no key changes: the last ones are those of Azure's networks.
pub(super) const PLACE: &[&str] =
    &["country", "region", "territory", "virtual network", "public access is disabled"];

/// Chat templates that insist on a form, and engines that fail in one.
pub(super) const TEMPLATE: &[&str] = &[
    "jinja exception",
    "raise_exception",
    "unable to generate parser for this template",
    "roles must alternate",
    "must alternate between",
    "template error",
    "failed to apply chat template",
    "failed to render",
    "tool call ids should be",
    "tool call id must be",
    "system role not supported",
    "does not support system messages",
    "only user and assistant roles are supported",
];

/// Words of validators and interpreters that say that a request has not the form that a server can
/// read.
pub(super) const FORM: &[&str] = &[
    "validation error",
    "literal_error",
    "can only concatenate",
    "object has no attribute",
    "is not iterable",
    "list indices must be",
    "unhashable type",
    "failed to parse tool call arguments",
    "failed to parse grammar",
    "extra inputs are not permitted",
    "input should be a valid",
    "unsupported content",
    "unsupported param",
    "unrecognized request argument",
];

pub(super) const FORM_KINDS: &[&str] = &[
    "invalid_request",
    "invalid_request_error",
    "unprocessable",
    "unprocessableentityerror",
    "precondition_failed",
    "badrequesterror",
    "bad_request",
    "not_supported_error",
    "validation_error",
    "validation",
    "template_error",
];

/// Kinds that pass by themselves.
pub(super) const PASSING: &[&str] = &[
    "rate_limit_exceeded",
    "rate_limit_error",
    "overloaded_error",
    "server_is_overloaded",
    "engine_overloaded_error",
    "service_unavailable_error",
    "timeout_error",
    "throttlingexception",
    "serviceunavailableexception",
    "internalserverexception",
    "modelnotreadyexception",
    "provider_overloaded",
    "provider_unavailable",
    "server_error",
    "server",
    "api_error",
    "timeout",
    "unavailable",
    "resource_exhausted",
];
