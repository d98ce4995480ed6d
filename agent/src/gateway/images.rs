//! Images, through the gateway. A call may last for minutes and is paid for: what is sent a second time only asks what became
//! of the first.

use std::time::{Duration, Instant};

use codebutler_wire::{
    ComparisonShown, DrawImages, DrawnImages, ErrorCode, ImagePlaced, PlaceImage, ShowComparison,
    path,
};
use reqwest::Method;

use super::{
    FIRST_PAUSE, GatewayClient, GatewayError, LONGEST_PAUSE, PATIENCE, parse_answer, send_once,
};

/// Several images, one after the other, and their way into Slack.
const CALL_LIMIT: Duration = Duration::from_mins(20);
/// Eight pictures on their way into Slack and to the Git host.
const SHOW_LIMIT: Duration = Duration::from_mins(5);

impl GatewayClient {
    /// Has images made.
    ///
    /// # Errors
    /// With what the gateway says, at once; without a word of it only after a while.
    pub async fn draw_images(&self, wanted: &DrawImages) -> Result<DrawnImages, GatewayError> {
        let mut wanted = wanted.clone();
        let (mut since, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            let began = Instant::now();
            let request = self.request(Method::POST, path::DRAW);
            let request = request.map(|request| request.json(&wanted).timeout(CALL_LIMIT));
            let error = match send_once(request).await {
                Ok(answered) => return parse_answer(&answered.body),
                Err(error) => error,
            };
            if began.elapsed() > PATIENCE {
                (since, pause) = (Instant::now(), FIRST_PAUSE);
            }
            if !error.may_pass() || since.elapsed() + pause > PATIENCE {
                return Err(error);
            }
            // A refused call has begun nothing.
            let refused = matches!(
                error,
                GatewayError::Refused { code: ErrorCode::Unavailable, .. }
                    | GatewayError::Token { .. }
            );
            wanted.again |= !refused;
            tracing::debug!(%error, ?pause, "asking for the images again");
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
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
