//! A model call as a span, with the attributes that OpenTelemetry has for generative AI. What was said is
//! no attribute.

use codebutler_crds::wire::history::ModelCall;
use codebutler_gateway_core::caller::ProvenCaller;
use kube::ResourceExt as _;
use tracing::Span;
use tracing::field::{Empty, display};

/// Makes the span of one call, from before it is made to its settlement.
pub(crate) fn call_span(caller: &ProvenCaller, model: &str) -> Span {
    tracing::info_span!(
        "chat",
        thread = %caller.key(),
        "gen_ai.operation.name" = "chat",
        "gen_ai.request.model" = model,
        "gen_ai.response.model" = Empty,
        "gen_ai.provider.name" = Empty,
        "gen_ai.conversation.id" = caller.thread.name_any(),
        "gen_ai.agent.name" = caller.role_name(),
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.cache_read.input_tokens" = Empty,
        "gen_ai.usage.cache_creation.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "gen_ai.usage.reasoning.output_tokens" = Empty,
        "codebutler.cost_usd" = Empty,
    )
}

/// Records the outcome of a call on the span that is entered.
pub(crate) fn record_call(call: ModelCall) -> ModelCall {
    let span = Span::current();
    span.record("gen_ai.response.model", call.model.as_str());
    span.record("gen_ai.provider.name", call.provider.as_deref());
    for (name, count) in [
        // Those that were kept are among them.
        ("gen_ai.usage.input_tokens", call.fresh + call.cached),
        ("gen_ai.usage.cache_read.input_tokens", call.cached),
        ("gen_ai.usage.cache_creation.input_tokens", call.written),
        ("gen_ai.usage.output_tokens", call.answered),
        ("gen_ai.usage.reasoning.output_tokens", call.reasoning),
    ] {
        span.record(name, count);
    }
    span.record("codebutler.cost_usd", display(call.cost));
    call
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use codebutler_crds::NanoUsd;
    use tracing_subscriber::fmt::format::FmtSpan;

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(text);
            Ok(text.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_call_says_what_it_used_in_the_words_of_the_convention() {
        let log = Log::default();
        let own = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(move || own.clone());
        tracing::subscriber::with_default(subscriber.finish(), || {
            let span = tracing::info_span!(
                "chat",
                "gen_ai.usage.input_tokens" = Empty,
                "gen_ai.usage.cache_read.input_tokens" = Empty,
                "codebutler.cost_usd" = Empty,
            );
            let cost = NanoUsd(123_457);
            let call = ModelCall { fresh: 30, cached: 70, cost, ..ModelCall::default() };
            span.in_scope(|| record_call(call));
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        for part in ["input_tokens=100", "cache_read.input_tokens=70", "cost_usd=0.000123457"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
