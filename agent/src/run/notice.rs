//! What a model is told of the limits of its run, with each call and nowhere else. Pure.

use std::time::Duration;

use super::view::spares_words;

/// Notice before the next call, if a limit is near.
pub(super) fn limit_notice(
    turns: u32,
    most: u32,
    time: Duration,
    left: Duration,
) -> Option<String> {
    let calls = most.saturating_sub(turns);
    if spares_words(most) && calls <= 1 {
        return Some(
            "[CodeButler] This is the last model call of your run, without tools. Say what is done, what is not, and what \
             comes next: that is posted."
                .to_owned(),
        );
    }
    let few_calls = spares_words(most) && turns.saturating_mul(5) >= most.saturating_mul(4);
    let little_time = left.saturating_mul(5) <= time;
    let what = match (few_calls, little_time) {
        (false, false) => return half_notice(turns, most, time, left),
        (true, false) => format!("{calls} of {most} model calls are"),
        (false, true) => {
            format!("about {} of {} minutes are", whole_minutes(left), whole_minutes(time))
        }
        (true, true) => format!(
            "{calls} of {most} model calls and about {} of {} minutes are",
            whole_minutes(left),
            whole_minutes(time)
        ),
    };
    Some(format!(
        "[CodeButler] {what} left of your run. Bring your work to a state that others can continue from, and say where it \
         stands before the run ends."
    ))
}

/// From half of the run on.
fn half_notice(turns: u32, most: u32, time: Duration, left: Duration) -> Option<String> {
    let calls = most.saturating_sub(turns);
    let few = spares_words(most) && turns.saturating_mul(2) >= most;
    let what = match (few, left.saturating_mul(2) <= time) {
        (false, false) => return None,
        (true, _) => format!("{calls} of {most} model calls are left"),
        (false, true) => {
            format!("about {} of {} minutes are left", whole_minutes(left), whole_minutes(time))
        }
    };
    Some(format!("[CodeButler] Half of your run is used: {what}."))
}

fn whole_minutes(time: Duration) -> u64 {
    time.as_secs().div_ceil(60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{PromptExperiment, change_body};

    #[test]
    fn limits_are_told_when_they_come_near() {
        let hour = Duration::from_hours(1);
        let told = |turns, left| {
            limit_notice(turns, 50, hour, Duration::from_mins(left)).unwrap_or_default()
        };
        assert_eq!(told(24, 60), "");
        assert_eq!(
            told(25, 60),
            "[CodeButler] Half of your run is used: 25 of 50 model calls are left."
        );
        assert!(told(3, 30).contains("Half of your run is used: about 30 of 60 minutes are left"));
        assert!(told(39, 60).contains("11 of 50"));
        // The arm of an experiment knows it by its beginning.
        let half = told(25, 60);
        let said = serde_json::json!({"messages": [{"role": "user", "content": half}]}).to_string();
        let late = change_body(&[PromptExperiment::LimitsLate], said.into());
        assert_eq!(late, r#"{"messages":[]}"#);
        assert!(told(40, 60).starts_with("[CodeButler] 10 of 50 model calls are left"));
        assert!(told(3, 12).contains("about 12 of 60 minutes are left"));
        assert!(told(48, 5).contains("2 of 50 model calls and about 5 of 60 minutes are left"));
        assert!(
            told(49, 60).contains("last model call") && told(60, 60).contains("last model call")
        );
        // A run of two calls has none to spare for words.
        assert_eq!(limit_notice(1, 2, hour, hour), None);
    }
}
