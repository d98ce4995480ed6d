//! Spans on their way to a collector, over OTLP, where the installation names one. All spans of a Thread are one
//! trace, in whichever process they began: from the envelope that brings a message to the post that answers it.
//! What leaves is masked as a line of the log is.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use codebutler_crds::redact::log::MaskedLog;
use http::{Request, Response};
use opentelemetry::trace::{SpanContext, SpanId, TraceId, TraceState, TracerProvider as _};
use opentelemetry::{KeyValue, StringValue, Value};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter as Export};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;
use url::Url;

/// The field of a span that says of which Thread it is: `namespace/name`.
pub const THREAD: &str = "thread";
/// The field by which a span that is told again is the same, and the one that names another as its parent. Neither
/// leaves.
pub const SPAN_KEY: &str = "codebutler.span";
pub const SPAN_PARENT: &str = "codebutler.parent";
/// Tracer name of all spans.
pub const TRACER: &str = "codebutler-operator";
/// Timeout of a request to the collector.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for sending the rest of the spans when the process ends.
const LAST: Duration = Duration::from_secs(2);
/// Interval at which it is logged that spans are not taken.
const QUIET: Duration = Duration::from_mins(1);

/// Exporter of spans, which sends them until it is dropped.
pub struct TraceExporter(SdkTracerProvider);

impl TraceExporter {
    /// Sends to the collector at `endpoint`, such as `http://collector:4318`, as what `service` says.
    ///
    /// # Errors
    /// When no client can be made.
    pub fn start(endpoint: &Url, service: &'static str) -> anyhow::Result<Self> {
        let mut endpoint = endpoint.clone();
        endpoint
            .path_segments_mut()
            .map_err(|()| anyhow::anyhow!("not an address of HTTP"))?
            .pop_if_empty()
            .extend(["v1", "traces"]);
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(SpanCollector::new()?)
            .with_endpoint(endpoint)
            .with_timeout(PATIENCE)
            .build()?;
        let resource = Resource::builder_empty()
            .with_service_name(service)
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder().with_resource(resource);
        let provider = provider.with_batch_exporter(ByThread(exporter)).build();
        // For spans that are told of after the fact.
        opentelemetry::global::set_tracer_provider(provider.clone());
        Ok(Self(provider))
    }

    /// Builds the layer that takes spans in.
    pub fn layer<S>(&self) -> OpenTelemetryLayer<S, opentelemetry_sdk::trace::SdkTracer>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let tracer = self.0.tracer(TRACER);
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
    }
}

impl Drop for TraceExporter {
    fn drop(&mut self) {
        // A collector that is away has been told of.
        let _ = self.0.shutdown_with_timeout(LAST);
    }
}

/// Puts the spans of each Thread into a trace of its own, and masks what they say.
#[derive(Debug)]
struct ByThread<E>(E);

impl<E: Export> Export for ByThread<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.export(batch.into_iter().map(prepare_span).collect()).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

fn prepare_span(mut span: SpanData) -> SpanData {
    let field = |name: &str| {
        let found = span.attributes.iter().find(|field| field.key.as_str() == name);
        found.map(|field| span_of(&field.value.as_str()))
    };
    let (own, parent) = (field(SPAN_KEY), field(SPAN_PARENT));
    if let Some(id) = own {
        let known = &span.span_context;
        let (trace, flags) = (known.trace_id(), known.trace_flags());
        span.span_context = SpanContext::new(trace, id, flags, false, TraceState::default());
    }
    span.parent_span_id = parent.unwrap_or(span.parent_span_id);
    span.attributes.retain(|field| ![SPAN_KEY, SPAN_PARENT].contains(&field.key.as_str()));
    let thread = span.attributes.iter().find(|field| field.key.as_str() == THREAD);
    if let Some(thread) = thread.map(|field| field.value.as_str()) {
        let own = &span.span_context;
        let (id, flags) = (own.span_id(), own.trace_flags());
        span.span_context =
            SpanContext::new(trace_of(&thread), id, flags, false, TraceState::default());
    }
    span.attributes.iter_mut().for_each(mask_field);
    let events = span.events.events.iter_mut();
    events.flat_map(|event| &mut event.attributes).for_each(mask_field);
    span
}

/// Returns the trace id of a Thread: the same in every process, so that none has to tell another.
fn trace_of(thread: &str) -> TraceId {
    let hash = Sha256::digest(thread.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    TraceId::from_bytes(id)
}

/// Returns the span id of a key: the same whenever it is told.
fn span_of(key: &str) -> SpanId {
    let hash = Sha256::digest(key.as_bytes());
    let mut id = [0; 8];
    id.copy_from_slice(&hash[..8]);
    SpanId::from_bytes(id)
}

fn mask_field(field: &mut KeyValue) {
    if let Value::String(text) = &field.value {
        let mut masked = Vec::new();
        // A vector takes everything.
        let _ = MaskedLog(&mut masked).write_all(text.as_str().as_bytes());
        field.value = StringValue::from(String::from_utf8_lossy(&masked).into_owned()).into();
    }
}

/// The way to the collector. Spans leave on a thread of their own, which waits here.
#[derive(Debug)]
struct SpanCollector {
    client: reqwest::Client,
    runtime: tokio::runtime::Runtime,
    told: Mutex<Option<Instant>>,
}

impl SpanCollector {
    fn new() -> anyhow::Result<Self> {
        // One crypto provider for everything; whoever comes first says which.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(PATIENCE).build().context("no client")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { client, runtime, told: Mutex::default() })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.execute(request.try_into()?).await?.error_for_status()?;
        let status = answer.status();
        Ok(Response::builder().status(status).body(answer.bytes().await?)?)
    }

    fn complain(&self, error: &HttpError) {
        let mut told = self.told.lock();
        if told.is_none_or(|at| at.elapsed() > QUIET) {
            *told = Some(Instant::now());
            tracing::warn!(%error, "trace_export_failed");
        }
    }
}

#[async_trait::async_trait]
impl HttpClient for SpanCollector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.runtime.block_on(self.send(request));
        sent.inspect_err(|error| self.complain(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_one_trace_wherever_it_is_seen() {
        assert_eq!(trace_of("team/shop-1"), trace_of("team/shop-1"));
        assert_ne!(trace_of("team/shop-1"), trace_of("team/shop-2"));
        assert_ne!(trace_of("team/shop-1"), TraceId::INVALID);
    }

    #[test]
    fn what_is_secret_does_not_leave() {
        let token = ["xoxb", "12345678901", "12345678901", "abcdefghijklmnopqrstuvwx"].join("-");
        let mut field = KeyValue::new("error", format!("refused: {token}"));
        mask_field(&mut field);
        let said = field.value.as_str().into_owned();
        assert!(said.starts_with("refused: ") && !said.contains(&token), "{said}");
    }
}
