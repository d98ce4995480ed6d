//! Retry policy for a model that does not answer. Pure: failures in, pauses out.

use std::time::{Duration, Instant};

/// Most retries of calls whose answer was lost: each may have been paid.
const LOST: u32 = 3;
const REFUSED: u32 = 1;
/// Divisors of the whole budget: the first pause, and the longest.
const FIRST: u32 = 1800;
const LONGEST: u32 = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallTrouble {
    /// The call was accepted and its answer lost.
    Lost,
    /// The provider is unavailable, for the given time if it said one.
    Away(Option<Duration>),
    /// It was refused for no known reason. Behind a provider there may be several, of which the next one
    /// takes what the last one did not.
    Refused,
}

/// Retry state since the model's last answer.
#[derive(Clone, Debug)]
pub(super) struct CallPatience {
    whole: Duration,
    lost: u32,
    refused: u32,
    pauses: u32,
    since: Option<Instant>,
    told: bool,
}

impl CallPatience {
    /// A full budget with no retries used yet.
    pub(super) const fn new(whole: Duration) -> Self {
        Self { whole, lost: 0, refused: 0, pauses: 0, since: None, told: false }
    }

    pub(super) const fn reset(&mut self) {
        *self = Self::new(self.whole);
    }

    /// Returns the pause before the next attempt; nothing once the retry budget is used up. `jitter`: between 0.5 and
    /// 1.5.
    pub(super) fn pause(
        &mut self,
        trouble: CallTrouble,
        now: Instant,
        jitter: f64,
    ) -> Option<Duration> {
        let since = *self.since.get_or_insert(now);
        let left = self.whole.saturating_sub(now.saturating_duration_since(since));
        let grown = (self.whole / FIRST) * 2u32.saturating_pow(self.pauses.min(20));
        let mut pause = grown.min(self.whole / LONGEST).mul_f64(jitter);
        self.pauses += 1;
        match trouble {
            CallTrouble::Lost => {
                self.lost += 1;
                if self.lost > LOST {
                    return None;
                }
            }
            CallTrouble::Refused => {
                self.refused += 1;
                if self.refused > REFUSED {
                    return None;
                }
            }
            CallTrouble::Away(asked) => pause = pause.max(asked.unwrap_or_default()),
        }
        (pause <= left).then_some(pause)
    }

    /// Returns true, once, when the wait is long enough to tell people about it.
    pub(super) fn is_long(&mut self, pause: Duration, now: Instant, tell_after: Duration) -> bool {
        let waited = self.since.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let long = !self.told && waited + pause >= tell_after;
        self.told |= long;
        long
    }

    /// The sentence on a wait that was given up, for people.
    pub(super) fn tell_end(&self, trouble: CallTrouble) -> String {
        let most = self.minutes();
        match trouble {
            CallTrouble::Lost => "I asked several times".to_owned(),
            CallTrouble::Refused => "I asked twice".to_owned(),
            CallTrouble::Away(Some(asked)) if asked > self.whole => {
                let minutes = asked.as_secs().div_ceil(60);
                format!("It asks for {minutes} min or more, and I wait for up to {most} min")
            }
            CallTrouble::Away(_) => format!("I waited for up to {most} min"),
        }
    }

    /// The whole retry budget, in minutes, rounded up.
    pub(super) fn minutes(&self) -> u64 {
        self.whole.as_secs().div_ceil(60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Duration = Duration::from_mins(30);

    #[test]
    fn a_lost_answer_is_asked_for_three_times_more() {
        let (mut patience, now) = (CallPatience::new(WHOLE), Instant::now());
        let mut pause = || patience.pause(CallTrouble::Lost, now, 1.0).map(|pause| pause.as_secs());
        assert_eq!([pause(), pause(), pause(), pause()], [Some(1), Some(2), Some(4), None]);
        patience.reset();
        assert!(patience.pause(CallTrouble::Lost, now, 1.0).is_some());
    }

    #[test]
    fn who_does_not_wait_does_not_say_so() {
        let mut patience = CallPatience::new(WHOLE);
        let away = CallTrouble::Away(Some(Duration::from_hours(1)));
        assert_eq!(patience.pause(away, Instant::now(), 1.0), None);
        let told = patience.tell_end(away);
        assert_eq!(told, "It asks for 60 min or more, and I wait for up to 30 min");
        assert_eq!(patience.tell_end(CallTrouble::Away(None)), "I waited for up to 30 min");
    }

    #[test]
    fn what_is_refused_without_a_reason_is_asked_once_more() {
        let (mut patience, now) = (CallPatience::new(WHOLE), Instant::now());
        assert!(patience.pause(CallTrouble::Refused, now, 1.0).is_some());
        assert!(patience.pause(CallTrouble::Lost, now, 1.0).is_some());
        assert_eq!(patience.pause(CallTrouble::Refused, now, 1.0), None);
    }

    #[test]
    fn who_is_away_is_waited_for_longer_and_longer_until_it_is_enough() {
        let (mut patience, start) = (CallPatience::new(WHOLE), Instant::now());
        let (mut now, mut pauses) = (start, Vec::new());
        while let Some(pause) = patience.pause(CallTrouble::Away(None), now, 1.0) {
            pauses.push(pause.as_secs());
            now += pause;
        }
        assert_eq!(pauses[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        let waited = now - start;
        assert!(waited > Duration::from_mins(29) && waited <= WHOLE, "{waited:?}");
    }

    #[test]
    fn what_a_provider_asks_for_is_waited_and_not_more_than_there_is() {
        let (mut patience, now) = (CallPatience::new(WHOLE), Instant::now());
        let asked = |secs| CallTrouble::Away(Some(Duration::from_secs(secs)));
        assert_eq!(patience.pause(asked(90), now, 1.0), Some(Duration::from_secs(90)));
        assert_eq!(patience.pause(asked(7200), now, 1.0), None);
    }

    #[test]
    fn people_are_told_once() {
        let (mut patience, now) = (CallPatience::new(WHOLE), Instant::now());
        let tell_after = Duration::from_secs(10);
        let pause = patience.pause(CallTrouble::Away(None), now, 1.0).unwrap();
        assert!(!patience.is_long(pause, now, tell_after));
        assert!(patience.is_long(pause, now + tell_after, tell_after));
        assert!(!patience.is_long(pause, now + 2 * tell_after, tell_after));
    }
}
