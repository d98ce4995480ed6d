//! A pod that waits for a Thread, and what pods tell of ways out.

use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use codebutler_wire::{EgressReport, SeatAnswer, path};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Gateway;

#[derive(Deserialize)]
struct SeatPatience {
    wait: u64,
}

pub(super) fn routes() -> Router<Gateway> {
    Router::new().route(path::SEAT, get(seat)).route(path::EGRESS_CHECK, post(egress))
}

async fn seat(
    State(gateway): State<Gateway>,
    Query(patience): Query<SeatPatience>,
) -> Json<SeatAnswer> {
    let deadline = Instant::now() + Duration::from_secs(patience.wait);
    loop {
        let taken = gateway.lock().seat_taken;
        if taken || Instant::now() >= deadline {
            let (thread, base_branch) = {
                let inner = gateway.lock();
                (inner.session.thread.clone(), inner.session.base_branch.clone())
            };
            return Json(SeatAnswer { thread: taken.then_some(thread), base_branch });
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn egress(State(gateway): State<Gateway>, Json(report): Json<EgressReport>) -> Json<Value> {
    gateway.lock().egress.push(report);
    Json(json!({}))
}
