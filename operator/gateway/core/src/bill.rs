//! Usage and cost of one model call.

use codebutler_crds::NanoUsd;
use codebutler_crds::limits::ModelPrice;
use codebutler_crds::thread::TokenUsage;

use crate::estimate;

/// A provider's answer, as far as it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is said, or not, by itself")]
pub struct ProviderBill {
    /// Tokens and cost of the call.
    pub usage: TokenUsage,
    /// True if the provider named a price, or one is known. If not, the cost is zero because it is
    /// unknown.
    pub priced: bool,
    /// True if the answer reports its usage.
    pub reported: bool,
    /// True if the answer is a completion (some providers report failures with status 200).
    pub completed: bool,
    /// Number of images in the answer.
    pub images: u64,
    /// Seconds of sound that were heard, rounded up.
    pub seconds: Option<u64>,
    /// True if the bill is an estimate: the provider did not report the quantity it bills by, or
    /// the price.
    pub estimated: bool,
    /// Searches of the web that the model made.
    pub searches: u64,
    /// Number of tokens of images among those that were sent.
    pub image_tokens: u64,
    /// Number of tokens of sound among those that were sent.
    pub audio_tokens: u64,
    /// Number of tokens among those that the provider keeps from now on which it keeps for an hour.
    pub hour_tokens: u64,
}

impl ProviderBill {
    /// The bill of a call that was served and has a price, with nothing in it beside this usage.
    #[must_use]
    pub const fn priced(usage: TokenUsage) -> Self {
        Self {
            usage,
            priced: true,
            reported: true,
            completed: true,
            images: 0,
            seconds: None,
            estimated: false,
            searches: 0,
            image_tokens: 0,
            audio_tokens: 0,
            hour_tokens: 0,
        }
    }

    /// True if the answer reports what was used. Some servers report zeros in streams, where they do not know it.
    #[must_use]
    pub const fn says_something(&self) -> bool {
        let usage = &self.usage;
        let has_figure = usage.prompt_tokens > 0 || usage.completion_tokens > 0;
        self.reported && (self.priced || has_figure || self.seconds.is_some())
    }

    /// The bill of an answer that tells neither a price nor anything to price: what it was expected to cost.
    #[must_use]
    pub fn or_expected(mut self, expected: NanoUsd) -> Self {
        let TokenUsage { prompt_tokens, completion_tokens, .. } = self.usage;
        let counts = [prompt_tokens, completion_tokens, self.images, self.searches];
        let is_counted = counts.iter().any(|count| *count > 0) || self.seconds.is_some();
        if self.priced || is_counted || expected == NanoUsd::ZERO {
            return self;
        }
        self.usage.cost = expected;
        (self.priced, self.estimated) = (true, true);
        self
    }

    /// Prices the bill with a known price where the provider named none.
    #[must_use]
    pub fn at(mut self, price: Option<&ModelPrice>) -> Self {
        let Some(price) = price.filter(|_| !self.priced) else { return self };
        let mut words = self.usage;
        let apart = self.image_tokens.saturating_add(self.audio_tokens);
        words.prompt_tokens = words.prompt_tokens.saturating_sub(apart);
        let tokens = estimate::price_tokens(&words, price)
            + estimate::price_sent_audio(self.audio_tokens, price)
            + estimate::price_hour(self.hour_tokens, price);
        // A recording is billed by its tokens or by its length, never by both.
        let (tokens, heard) = match self.seconds {
            Some(seconds) if tokens == NanoUsd::ZERO => {
                (tokens, estimate::price_sound(seconds, price))
            }
            _ => {
                self.estimated = false;
                (tokens, NanoUsd::ZERO)
            }
        };
        self.usage.cost = tokens
            + estimate::price_sent_images(self.image_tokens, price)
            + estimate::estimate_images(self.images, price)
            + heard
            + estimate::price_searches(self.searches, price);
        self.priced = true;
        self
    }
}
