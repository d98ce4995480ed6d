//! A whole answer: how it is read, whether it comes at once or as a stream, and what it says of its bill.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use tokio::time::Instant;

use super::billing::{self, ProviderBill};
use super::collect::StreamedAnswer;
use super::complaint::{self, ProviderComplaint};
use super::job::ModelJob;
use super::recording;
use super::search;
use super::slow::{AnswerPatience, SlowModel};
use super::stream::{self, AnswerNews};
use super::upstream::{self, ModelError};
use crate::budget::BilledCall;

/// A whole answer, whatever it is.
pub(crate) struct ReadAnswer {
    pub answer: Bytes,
    /// Bill; None if it can't be read.
    pub bill: Option<ProviderBill>,
    /// Failure that the answer reports.
    pub failure: Option<ProviderComplaint>,
    /// True if the answer came as a stream and reported no tokens.
    pub is_uncounted: bool,
}

/// Outcome of a call's grant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GrantEnd {
    Settle(ProviderBill),
    TakeBack,
    Flag,
}

pub(crate) fn of_bill(bill: Option<&ProviderBill>, failed: bool) -> GrantEnd {
    match bill {
        Some(bill) if bill.priced => GrantEnd::Settle(*bill),
        Some(bill) if bill.completed && (bill.reported || !failed) => GrantEnd::Settle(*bill),
        Some(bill) if !bill.completed => GrantEnd::TakeBack,
        // It can't be read, or broke off, and says nothing of a bill.
        _ => GrantEnd::Flag,
    }
}

/// Reads an answer to its end.
///
/// # Errors
/// When it did not come, or not all of it.
pub(crate) async fn read_whole(
    response: reqwest::Response,
    job: &ModelJob,
    (asked, patience, model): (Instant, &AnswerPatience, &SlowModel<'_>),
    call: &mut BilledCall,
) -> Result<ReadAnswer, ModelError> {
    let streamed = is_stream(&response);
    let answer = if streamed {
        let news = |news: AnswerNews<'_>| match news {
            AnswerNews::Lasts => call.lasts(),
            AnswerNews::Id(id) => call.known_as(id),
        };
        stream::collect_stream(response, (asked, patience), model, news).await?
    } else {
        let collected = std::pin::pin!(upstream::collect_answer(response));
        join_unnamed_stream(stream::await_lasting(collected, || call.lasts()).await?)?
    };
    if complaint::is_web_page(&String::from_utf8_lossy(&answer[..answer.len().min(200)])) {
        // Nothing was asked of a model, so nothing is billed.
        let failure = Some(complaint::read_complaint(&answer));
        let bill = billing::read_bill(b"{}");
        return Ok(ReadAnswer { answer, bill, failure, is_uncounted: false });
    }
    let (bill, failure) = (billing::read_bill(&answer), billing::find_failure(&answer));
    let bill = bill.map(|bill| match job {
        // A chat about a recording is billed by its tokens.
        ModelJob::Speech(recording) if bill.completed && !recording::is_chat(&answer) => {
            with_length(bill, recording.speech_seconds())
        }
        ModelJob::Search(_) if bill.completed => {
            ProviderBill { searches: search::billed_searches(&answer), ..bill }
        }
        _ => bill,
    });
    let is_uncounted = streamed && bill.is_some_and(|bill| bill.completed && !bill.reported);
    Ok(ReadAnswer { answer, bill, failure, is_uncounted })
}

/// The length of a recording as it is known here, where none is told: it is billed only where no tokens are.
fn with_length(bill: ProviderBill, seconds: u64) -> ProviderBill {
    if bill.seconds.is_some() {
        return bill;
    }
    ProviderBill { seconds: Some(seconds), estimated: !bill.priced, ..bill }
}

/// A stream of events that came under another content type, put together; any other answer as it is.
fn join_unnamed_stream(answer: Bytes) -> Result<Bytes, ModelError> {
    let text = answer.trim_ascii_start();
    if ![&b"data:"[..], b"event:", b":"].iter().any(|field| text.starts_with(field)) {
        return Ok(answer);
    }
    let mut whole = StreamedAnswer::default();
    whole.take(&answer);
    stream::finish_answer(whole)
}

fn is_stream(response: &reqwest::Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

#[cfg(test)]
mod tests {
    use codebutler_crds::NanoUsd;
    use codebutler_crds::limits::ModelPrice;
    use codebutler_crds::thread::TokenUsage;

    use super::*;

    #[test]
    fn a_grant_ends_with_what_is_known_of_the_bill() {
        let bill = |completed, priced, reported| {
            let usage = TokenUsage::default();
            ProviderBill {
                usage,
                priced,
                reported,
                completed,
                images: 0,
                seconds: None,
                estimated: false,
                searches: 0,
                image_tokens: 0,
                audio_tokens: 0,
                hour_tokens: 0,
            }
        };
        for (told, failed, end) in [
            (bill(true, true, true), false, "settle"),
            (bill(true, false, false), false, "settle"),
            (bill(true, false, true), true, "settle"),
            (bill(true, false, false), true, "flag"),
            (bill(false, true, true), true, "settle"),
            (bill(false, false, false), true, "take back"),
            (bill(false, false, false), false, "take back"),
        ] {
            let found = match of_bill(Some(&told), failed) {
                GrantEnd::Settle(_) => "settle",
                GrantEnd::TakeBack => "take back",
                GrantEnd::Flag => "flag",
            };
            assert_eq!(found, end, "{told:?} {failed}");
        }
        assert_eq!(of_bill(None, false), GrantEnd::Flag);
    }

    #[test]
    fn a_stream_is_read_whatever_its_content_type() {
        let stream = ": hello\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
        let ended = join_unnamed_stream(Bytes::from(format!("{stream}data: [DONE]\n\n"))).unwrap();
        assert!(billing::read_bill(&ended).is_some_and(|bill| bill.completed), "{ended:?}");
        let cut = join_unnamed_stream(Bytes::from(stream));
        assert!(matches!(cut, Err(ModelError::Lost)));
        let whole = Bytes::from(r#"{"choices":[]}"#);
        assert_eq!(join_unnamed_stream(whole.clone()).unwrap(), whole);
    }

    #[test]
    fn a_recording_is_billed_by_what_is_told_and_else_by_its_length() {
        let price = ModelPrice {
            prompt: NanoUsd(2_500_000_000),
            completion: NanoUsd(10_000_000_000),
            audio_minute: NanoUsd(6_000_000),
            ..ModelPrice::default()
        };
        let of = |usage: &str| {
            let answer = format!(r#"{{"text":"hi"{usage}}}"#);
            let bill = with_length(billing::read_bill(answer.as_bytes()).unwrap(), 60);
            let bill = bill.at(Some(&price));
            (bill.usage.cost.0, bill.estimated)
        };
        let tokens = r#","usage":{"type":"tokens","input_tokens":600,"output_tokens":45}"#;
        assert_eq!(of(tokens), (600 * 2_500 + 45 * 10_000, false), "not by its bytes as well");
        let length = r#","usage":{"type":"duration","seconds":30}"#;
        assert_eq!(of(length), (3_000_000, false));
        let cost = r#","usage":{"seconds":30,"cost":0.002}"#;
        assert_eq!(of(cost), (2_000_000, false));
        for nothing in ["", r#","usage":null"#, r#","usage":{}"#] {
            assert_eq!(of(nothing), (6_000_000, true), "{nothing}");
        }
    }
}
