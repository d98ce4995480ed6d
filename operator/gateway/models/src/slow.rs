//! Timeouts for a server that may be slow, and the advice on one that takes longer: which field
//! makes its answers shorter. Pure.

use std::time::Duration;

/// Seconds that an answer of the proposed length takes.
const COMFORTABLE: u64 = 600;
/// Fewest tokens that the Repo takes for an answer's length.
const LEAST: u64 = 256;

/// Timeouts of the parts of an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerPatience {
    /// Time until its first words.
    pub begin: Duration,
    /// Longest pause between two pieces.
    pub idle: Duration,
    /// Time for all of it: whoever asked waits a little longer than this.
    pub whole: Duration,
}

impl AnswerPatience {
    /// Returns the timeouts for a server in one's own network, which may read and write a few words
    /// a second, or for one of the internet's.
    pub const fn of(is_internal: bool) -> Self {
        Self {
            begin: Duration::from_mins(if is_internal { 20 } else { 10 }),
            idle: Duration::from_mins(5),
            whole: Duration::from_mins(25),
        }
    }
}

/// A model that may be slow, and the field of the Repo that says what it can do.
#[derive(Clone, Debug)]
pub struct SlowModel<'a> {
    pub model: &'a str,
    pub field: String,
}

/// Explains that a model has not begun to answer.
pub(crate) fn tell_silence(SlowModel { model, field }: &SlowModel<'_>, waited: Duration) -> String {
    format!(
        "the model `{model}` has not answered within {}: it may be slow. `maxTokens` of \
         `{field}` of the Repo makes its answers shorter, and `contextTokens` its \
         conversations; or choose a faster model",
        tell_minutes(waited)
    )
}

/// Explains that a model's answer is not complete.
pub(crate) fn tell_slowness(
    SlowModel { model, field }: &SlowModel<'_>,
    tokens: u64,
    waited: Duration,
) -> String {
    let seconds = waited.as_secs().max(1);
    let tenths = tokens * 10 / seconds;
    let proposed = (tokens * COMFORTABLE / seconds / 100 * 100).max(LEAST);
    format!(
        "the model `{model}` is slow, about {}.{} tokens a second: its answer was not complete after {}. Set \
         `{field}.maxTokens` of the Repo to {proposed}, or choose a faster model",
        tenths / 10,
        tenths % 10,
        tell_minutes(waited)
    )
}

fn tell_minutes(time: Duration) -> String {
    match time.as_secs() / 60 {
        0 => format!("{} s", time.as_secs()),
        minutes => format!("{minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn m() -> SlowModel<'static> {
        SlowModel { model: "m", field: "spec.model.models.m".to_owned() }
    }

    #[test]
    fn who_is_slow_is_told_the_length_that_takes_ten_minutes() {
        let told = tell_slowness(&m(), 3_300, Duration::from_mins(25));
        assert!(told.contains("about 2.2 tokens a second"), "{told}");
        assert!(
            told.ends_with(
                "`spec.model.models.m.maxTokens` of the Repo to 1300, or choose a faster model"
            ),
            "{told}"
        );
        let crawling = tell_slowness(&m(), 30, Duration::from_mins(25));
        assert!(crawling.contains("to 256,"), "no shorter one is taken: {crawling}");
        assert!(tell_silence(&m(), Duration::from_mins(20)).contains("within 20 min"));
    }
}
