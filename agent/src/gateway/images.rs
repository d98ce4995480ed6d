//! Image requests, through the gateway.

use std::time::Duration;

use codebutler_wire::{
    ComparisonShown, DrawImages, DrawnImages, ImagePlaced, PlaceImage, ShowComparison, path,
};
use reqwest::Method;

use super::{GatewayClient, GatewayError};

/// Timeout of one request for several images, made one after the other, and their upload to Slack.
const CALL_LIMIT: Duration = Duration::from_mins(20);
/// Timeout for up to eight pictures on their way into Slack and to the Git host.
const SHOW_LIMIT: Duration = Duration::from_mins(5);

impl GatewayClient {
    /// Generates images.
    ///
    /// # Errors
    /// With what the gateway says, at once; without a word of it only after a while.
    pub async fn draw_images(&self, wanted: &DrawImages) -> Result<DrawnImages, GatewayError> {
        self.retry_lasting((wanted.again, CALL_LIMIT), |again| {
            let wanted = DrawImages { again, ..wanted.clone() };
            Ok(self.request(Method::POST, path::DRAW)?.json(&wanted))
        })
        .await
    }

    /// Shows people a page before and after a change.
    ///
    /// # Errors
    /// With what the gateway says.
    pub async fn show_comparison(
        &self,
        wanted: &ShowComparison,
    ) -> Result<ComparisonShown, GatewayError> {
        self.typed(|| {
            let request = self.request(Method::POST, path::COMPARISONS)?;
            Ok(request.json(wanted).timeout(SHOW_LIMIT))
        })
        .await
    }

    /// Asks whether an image may be committed at a path.
    ///
    /// # Errors
    /// With what the gateway says.
    pub async fn place_image(&self, wanted: &PlaceImage) -> Result<ImagePlaced, GatewayError> {
        self.send(path::PLACE_IMAGE, wanted).await
    }
}
