//! Estimates of tokens from lengths of texts, on the safe side.

/// Characters that count as a token: less than in most texts.
pub(crate) const PER_TOKEN: usize = 3;

/// Estimates the tokens of so many characters.
pub fn count_tokens(characters: usize) -> u32 {
    u32::try_from(characters / PER_TOKEN).unwrap_or(u32::MAX)
}

/// Estimates the characters of so many tokens.
pub(crate) const fn count_characters(tokens: u32) -> usize {
    tokens as usize * PER_TOKEN
}
