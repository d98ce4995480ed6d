//! Times of day, to the minute.

/// A time of day, in minutes since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock(u16);

impl Clock {
    /// Reads `HH:MM`, from `00:00` to `23:59`.
    pub fn parse(text: &str) -> Option<Self> {
        let (hours, minutes) = text.split_once(':')?;
        if hours.len() != 2 || minutes.len() != 2 {
            return None;
        }
        let hours: u16 = hours.parse().ok()?;
        let minutes: u16 = minutes.parse().ok()?;
        (hours < 24 && minutes < 60).then_some(Self(hours * 60 + minutes))
    }

    /// Minutes from this time of day to another.
    pub fn minutes_until(self, end: Self) -> u32 {
        u32::from(end.0.saturating_sub(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(text: &str) -> Clock {
        Clock::parse(text).unwrap()
    }

    #[test]
    fn only_real_times_are_read() {
        assert_eq!(Clock::parse("00:00"), Some(Clock(0)));
        assert_eq!(Clock::parse("23:59"), Some(Clock(1439)));
        for text in ["24:00", "12:60", "9:00", "12:5", "12", "", "ab:cd"] {
            assert_eq!(Clock::parse(text), None, "{text}");
        }
    }

    #[test]
    fn minutes_are_counted_within_a_day() {
        assert_eq!(clock("09:00").minutes_until(clock("12:30")), 210);
    }
}
