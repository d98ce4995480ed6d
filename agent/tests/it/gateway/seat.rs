//! A pod that waits for a Thread, and what pods tell of ways out.

use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use codebutler_wire::{EgressReport, SeatAnswer, SeatSetUpEnd, path};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Gateway;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeatPatience {
    wait: u64,
    set_up: Option<SeatSetUpEnd>,
}

pub(super) fn routes() -> Router<Gateway> {
    Router::new().route(path::SEAT, get(seat)).route(path::EGRESS_CHECK, post(egress))
}

async fn seat(
    State(gateway): State<Gateway>,
    Query(patience): Query<SeatPatience>,
) -> Json<SeatAnswer> {
    gateway.lock().seat_ends.extend(patience.set_up);
    let deadline = Instant::now() + Duration::from_secs(patience.wait);
    loop {
        let taken = gateway.lock().seat_taken;
        if taken || Instant::now() >= deadline {
            let inner = gateway.lock();
            return Json(SeatAnswer {
                thread: taken.then(|| inner.session.thread.clone()),
                base_branch: inner.session.base_branch.clone(),
                sparse: inner.session.sparse.clone(),
                set_up: inner.seat_set_up.clone().filter(|_| !taken),
            });
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn egress(State(gateway): State<Gateway>, Json(report): Json<EgressReport>) -> Json<Value> {
    gateway.lock().egress.push(report);
    Json(json!({}))
}
