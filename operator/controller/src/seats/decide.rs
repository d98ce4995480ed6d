//! Decides which seats a Repo is to have. Pure: no clock, no network, no cache.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::warm::{MOST_SEATS, WarmSpec, WarmStatus};
use codebutler_crds::{condition, names};
use codebutler_runtime::notice::EventNotice;
use codebutler_runtime::schedule::ScheduleClock;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};

use super::failures::{clone_limit, find_failure, start_limit};
use super::making::{SeatMaker, works_in_worktree};
use super::plan::{NewSeat, SeatRole, SeatsPlan, SeatsView};
use crate::pod_life::{self, PodLife};
use crate::refusals;
use crate::seat_memory::{FailedSeats, SeatFailure};
use crate::thread::pod::ANNOTATION_CONFIG;

/// Interval between tries of a refused seat, and of seats that were given up for work. A timer is needed because the
/// cause is not watched.
const RETRY: Duration = Duration::from_mins(1);
/// The next seat is made so long after one was taken: the role that took it begins first.
const AFTER_TAKING: SignedDuration = SignedDuration::from_secs(3);
/// A seat that runs and is not ready after this long is told to people. It stays for longer: its agent goes on
/// trying.
const CLONES: SignedDuration = SignedDuration::from_mins(5);

/// The state of the seats, in a reason and a sentence.
struct SeatsVerdict {
    holds: bool,
    /// True if the verdict is worth an event.
    warns: bool,
    reason: &'static str,
    message: String,
}

impl SeatsVerdict {
    const fn good(reason: &'static str, message: String) -> Self {
        Self { holds: true, warns: false, reason, message }
    }

    const fn passing(reason: &'static str, message: String) -> Self {
        Self { holds: false, warns: false, reason, message }
    }

    const fn bad(reason: &'static str, message: String) -> Self {
        Self { holds: false, warns: true, reason, message }
    }
}

/// Decides about the seats of `view.repo`.
pub(super) fn plan_seats(view: &SeatsView) -> SeatsPlan {
    let before = view.repo.status.clone().unwrap_or_default();
    let mut plan = SeatsPlan { conditions: before.conditions.clone(), ..SeatsPlan::default() };
    let Some(warm) = &view.repo.spec.warm else {
        plan.delete =
            view.pods.iter().filter(|pod| !is_ending(pod)).filter_map(|p| p.uid()).collect();
        condition::clear_condition(&mut plan.conditions, condition::SEATS_READY);
        condition::clear_condition(&mut plan.conditions, condition::SEATS_SET_UP);
        return plan;
    };
    let known = before.warm.unwrap_or_default();
    let used = known.used.as_ref().map(|used| used.0).into_iter().chain(view.activity).max();
    // Whoever asks for seats needs them first.
    plan.status.used = Some(Time(used.unwrap_or(view.now)));
    let mut wanted = wanted_seats(view, warm);
    if !has_set_ups(view, &wanted) {
        // No seat is left that could say that its set-up succeeds now.
        condition::clear_condition(&mut plan.conditions, condition::SEATS_SET_UP);
    }
    let held = find_hold(view, warm, &mut plan);
    if held.is_some() {
        wanted.clear();
    }
    plan.status.wanted = wanted.iter().sum();
    let verdict = fill_seats(view, &known, &wanted, &mut plan);
    tell_verdict(view, held.unwrap_or(verdict), &mut plan);
    plan
}

/// Seats of each role. Of the first one there are those of the Repo's own numbers, also before its AgentRole is found.
fn wanted_seats(view: &SeatsView, warm: &WarmSpec) -> Vec<u32> {
    let first = match warm.seats {
        0 => 0,
        seats => seats.saturating_add(view.begun).min(warm.most()),
    };
    let others = view.roles.iter().map(|own| warm.seats_of(&own.role.spec.role));
    let mut wanted: Vec<u32> = others.collect();
    match wanted.first_mut() {
        Some(own) => *own = first.max(*own),
        None => wanted.push(first),
    }
    let mut room = MOST_SEATS;
    for own in &mut wanted {
        *own = room.min(*own);
        room -= *own;
    }
    wanted
}

/// True if the spec asks for seats that are set up: in the image of some role whose commands run in the worktree. With no
/// roles found yet, nobody knows.
fn has_set_ups(view: &SeatsView, wanted: &[u32]) -> bool {
    if view.roles.is_empty() {
        return wanted.iter().any(|seats| *seats > 0);
    }
    view.roles.iter().zip(wanted).filter(|(_, seats)| **seats > 0).any(|(own, _)| {
        let image = &own.role.spec.workspace.image;
        let mut roles = view.roles.iter().map(|known| known.role);
        roles.any(|role| works_in_worktree(role) && role.spec.workspace.image == *image)
    })
}

/// Names in `spec.warm.roles` that none of the Repo's roles has.
fn unknown_roles<'a>(view: &'a SeatsView) -> Vec<&'a str> {
    let wanted = view.repo.spec.warm.iter().flat_map(|warm| &warm.roles);
    let names = wanted.map(|of_role| of_role.role.as_str());
    names.filter(|name| view.roles.iter().all(|own| own.role.spec.role != *name)).collect()
}

/// The reason for which there are to be none now, if there is one.
fn find_hold(view: &SeatsView, warm: &WarmSpec, plan: &mut SeatsPlan) -> Option<SeatsVerdict> {
    if view.repo.spec.suspend {
        let message = "spec.suspend: no seats wait until it is unset".to_owned();
        return Some(SeatsVerdict::good("SeatsAsleep", message));
    }
    if view.waits {
        plan.look_again_in(RETRY);
        let message = "a Thread waits for room on a node or in a quota: seats are given up for it, and made again \
                       when none waits"
            .to_owned();
        return Some(SeatsVerdict::bad("SeatsYield", message));
    }
    let clock = match read_schedule(view, warm) {
        None => None,
        Some(Ok(clock)) => Some(clock),
        Some(Err(why)) => {
            let message = format!(
                "spec.warm.schedule: {why}: correct it; until then no seats wait, and each Thread starts a pod of its own"
            );
            return Some(SeatsVerdict::bad("SeatScheduleInvalid", message));
        }
    };
    let idle = SignedDuration::from_secs(warm.idle_seconds?.into());
    let since = view.now.checked_sub(idle).unwrap_or(view.now);
    let fired = clock.as_ref().and_then(|clock| clock.next(since)).filter(|at| *at <= view.now);
    let used = plan.status.used.as_ref().map(|used| used.0).filter(|used| *used > since);
    if let Some(last) = used.into_iter().chain(fired).max() {
        plan.look_again_at(last.saturating_add(idle).unwrap_or(view.now), view.now);
        return None;
    }
    let next = clock.and_then(|clock| clock.next(view.now));
    if let Some(next) = next {
        plan.look_again_at(next, view.now);
    }
    let message = format!(
        "nobody has written for {} s (spec.warm.idleSeconds): seats wait again after the next message{}",
        idle.as_secs(),
        next.map(|next| format!(", or at {next:.0}")).unwrap_or_default()
    );
    Some(SeatsVerdict::good("SeatsAsleep", message))
}

fn read_schedule(
    view: &SeatsView,
    warm: &WarmSpec,
) -> Option<Result<ScheduleClock, codebutler_runtime::schedule::CronError>> {
    let fields: Vec<&str> = warm.schedule.as_ref()?.split_whitespace().collect();
    let cron = format!("{} {}", fields.join(" "), view.repo.spec.limits.time_zone);
    Some(ScheduleClock::read(&cron, view.now))
}

/// Keeps what fits, gives up what is too much, and makes what is missing.
fn fill_seats(
    view: &SeatsView,
    known: &WarmStatus,
    wanted: &[u32],
    plan: &mut SeatsPlan,
) -> SeatsVerdict {
    let (false, Ok(gateway), true) = (view.roles.is_empty(), view.gateway, view.prepared) else {
        plan.status.pods.clone_from(&known.pods);
        let message = "the Repo is being prepared: its other conditions say more".to_owned();
        return SeatsVerdict::passing("SeatsStarting", message);
    };
    let mut lacking = None;
    for (at, own) in view.roles.iter().enumerate() {
        let made = SeatMaker { repo: view.repo, role: own.role, gateway, args: view.args };
        let wanted = wanted.get(at).copied().unwrap_or_default();
        let trouble = fill_role(view, own, &made, (known, wanted), plan);
        lacking = lacking.or(trouble);
    }
    let is_nobodys = |pod: &&Arc<Pod>| view.roles.iter().all(|own| !is_of_role(view, own, pod));
    let others = view.pods.iter().filter(|pod| !is_ending(pod)).filter(is_nobodys);
    plan.delete.extend(others.filter_map(|pod| pod.uid()));
    if view.begun > 0 {
        // Extra seats for Threads that have begun lately go once these are no longer young.
        plan.look_again_in(RETRY);
    }
    judge_seats(view, lacking, plan)
}

fn is_of_role(view: &SeatsView, own: &SeatRole, pod: &Pod) -> bool {
    let name = pod.name_any();
    names::seat_of_pod(&view.repo.name_any(), &name)
        .is_some_and(|(_, role)| role == own.role.spec.role)
}

/// The seats of one role. Answers what keeps them from being there.
fn fill_role(
    view: &SeatsView,
    own: &SeatRole,
    made: &SeatMaker,
    (known, wanted): (&WarmStatus, u32),
    plan: &mut SeatsPlan,
) -> Option<String> {
    let failed = own.failed.as_ref().filter(|failed| failed.due > view.now);
    let mut seats = SortedSeats::default();
    let own_pods = view.pods.iter().filter(|pod| !is_ending(pod) && is_of_role(view, own, pod));
    for pod in own_pods {
        let name = pod.name_any();
        let fits = names::seat_of_pod(&view.repo.name_any(), &name).is_some_and(|(seat, _)| {
            pod.annotations().get(ANNOTATION_CONFIG) == Some(&made.input(seat).config())
        });
        seats.sort(view, pod, (fits, failed.is_some()), plan);
    }
    for pod in seats.keep(wanted, plan) {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let seat = names::seat_of_pod(&view.repo.name_any(), &name);
        if let Some((seat, _)) = seat.filter(|_| !known.pods.contains_key(&name)) {
            plan.claims.insert(uid.clone(), seat.to_owned());
        }
        plan.status.pods.insert(name, uid);
    }
    let ready = seats.ready.min(wanted);
    plan.status.ready += ready;
    for _ in 0..missing_seats(view, failed, wanted - seats.kept, plan) {
        let number = plan.create.len();
        let seat = names::seat_name(&view.repo.name_any(), seat_id(view, number));
        plan.create.push(NewSeat { pod: made.input(&seat).build(), seat });
    }
    if wanted == 0 {
        return None;
    }
    let failed = failed.filter(|_| ready < wanted);
    let again = failed.map(|failed| format!("; the next one is tried at {:.0}", failed.due));
    let why = failed.map(|failed| &failed.why).or(seats.troubles.first())?;
    Some(format!("{why}{}", again.unwrap_or_default()))
}

/// The number of seats to make now, where there is room for so many. Of those that failed the places stay free until
/// the next try; others are none the worse for it.
fn missing_seats(
    view: &SeatsView,
    failed: Option<&FailedSeats>,
    room: u32,
    plan: &mut SeatsPlan,
) -> u32 {
    let mut missing = room;
    if let Some(failed) = failed.filter(|_| room > 0) {
        plan.look_again_at(failed.due, view.now);
        missing = room.saturating_sub(failed.places);
    }
    let taken = view.taken.and_then(|taken| taken.checked_add(AFTER_TAKING).ok());
    if let Some(due) = taken.filter(|due| *due > view.now && missing > 0) {
        plan.look_again_at(due, view.now);
        return 0;
    }
    if view.refusal.is_none() { missing } else { 0 }
}

/// `lacking`: what keeps seats of a role from being there.
fn judge_seats(view: &SeatsView, lacking: Option<String>, plan: &mut SeatsPlan) -> SeatsVerdict {
    let cold = "each Thread that finds none starts a pod of its own";
    if let Some(refusal) = view.refusal {
        plan.look_again_in(RETRY);
        let said = refusals::refusal_health(refusal, &view.repo.spec.policy.redaction).message;
        let message = format!("seats are refused: {said}; {cold}");
        return SeatsVerdict::bad("SeatsRefused", message);
    }
    if let Some(why) = lacking {
        return SeatsVerdict::bad("SeatFailed", format!("{why}; {cold}"));
    }
    let unknown = unknown_roles(view);
    if !unknown.is_empty() {
        let message = format!(
            "spec.warm.roles: no AgentRole of spec.roles has the role `{}`: correct it; the seats of others are made",
            unknown.join("`, `")
        );
        return SeatsVerdict::bad("SeatRoleUnknown", message);
    }
    let (ready, wanted) = (plan.status.ready, plan.status.wanted);
    if ready < wanted {
        return SeatsVerdict::passing("SeatsStarting", format!("{ready} of {wanted} seats wait"));
    }
    SeatsVerdict::good("SeatsReady", format!("{ready} of {wanted} seats wait"))
}

/// Progress of a seat, the best stage first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SeatStage {
    /// The seat is running and has its clone.
    Ready,
    Running,
    Starting,
}

/// The seats by what is to become of them.
#[derive(Default)]
struct SortedSeats<'a> {
    /// Seats as they would be made now, ready ones first.
    fitting: Vec<(&'a Arc<Pod>, SeatStage)>,
    /// Made from an earlier version of Repo, role or installation.
    outdated: Vec<(&'a Arc<Pod>, SeatStage)>,
    /// Failed seats, kept for their logs.
    failed: Vec<&'a Arc<Pod>>,
    kept: u32,
    ready: u32,
    troubles: Vec<String>,
}

impl<'a> SortedSeats<'a> {
    /// `fits`: as it would be made now. `waits`: the next one is not tried yet after one that failed.
    fn sort(
        &mut self,
        view: &SeatsView,
        pod: &'a Arc<Pod>,
        (fits, waits): (bool, bool),
        plan: &mut SeatsPlan,
    ) {
        if let Some(SeatFailure { ended, .. }) = find_failure(pod, view.now) {
            // The log of a failure is kept only until the next try is due.
            if ended && fits && waits {
                self.failed.push(pod);
            } else {
                plan.delete.extend(pod.uid());
            }
            return;
        }
        let stage = match PodLife::of(pod) {
            PodLife::Succeeded => {
                plan.delete.extend(pod.uid());
                return;
            }
            _ if pod_life::is_ready(pod) => SeatStage::Ready,
            PodLife::Running => {
                self.watch_clone(view, pod, plan);
                SeatStage::Running
            }
            _ => {
                plan.look_again_at(start_limit(pod, view.now), view.now);
                let trouble = pod_life::find_trouble(pod, view.now);
                if let Some(trouble) = trouble.filter(|trouble| trouble.passes.is_none()) {
                    let name = pod.name_any();
                    self.troubles
                        .push(format!("seat `{name}` does not start: {}", trouble.message));
                }
                SeatStage::Starting
            }
        };
        if fits { &mut self.fitting } else { &mut self.outdated }.push((pod, stage));
    }

    fn watch_clone(&mut self, view: &SeatsView, pod: &Pod, plan: &mut SeatsPlan) {
        let since = pod_life::agent_since(pod).unwrap_or(view.now);
        let due = since.saturating_add(CLONES).unwrap_or(view.now);
        if let Some(limit) = clone_limit(pod, view.now) {
            plan.look_again_at(limit, view.now);
        }
        if due > view.now {
            plan.look_again_at(due, view.now);
            return;
        }
        let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
        self.troubles.push(format!(
            "seat `{name}` has not been ready for {} min, which it is with a clone of the base branch: its log says what \
             is in the way, see `kubectl -n {namespace} logs {name} -c agent`",
            CLONES.as_mins()
        ));
    }

    /// Up to `wanted` seats stay. One that is outdated serves nobody: it goes as soon as it is known. Those that are
    /// ready stay before those that start. What failed keeps nobody's place, and nobody waits for it where none is
    /// missing.
    fn keep(&mut self, wanted: u32, plan: &mut SeatsPlan) -> Vec<&'a Arc<Pod>> {
        plan.delete.extend(self.outdated.iter().filter_map(|(pod, _)| pod.uid()));
        self.fitting.sort_by_key(|(pod, stage)| (*stage, pod.name_any()));
        let room = usize::try_from(wanted).unwrap_or(usize::MAX);
        let rest = self.fitting.split_off(room.min(self.fitting.len()));
        plan.delete.extend(rest.iter().filter_map(|(pod, _)| pod.uid()));
        self.kept = u32::try_from(self.fitting.len()).unwrap_or(u32::MAX);
        if self.kept >= wanted {
            plan.delete.extend(self.failed.iter().filter_map(|pod| pod.uid()));
        }
        let ready = self.fitting.iter().filter(|(_, stage)| *stage == SeatStage::Ready).count();
        self.ready = u32::try_from(ready).unwrap_or(u32::MAX);
        self.fitting.iter().map(|(pod, _)| *pod).collect()
    }
}

/// Returns a fresh id each time: a seat is used once, and so is its name.
fn seat_id(view: &SeatsView, number: usize) -> u32 {
    let uid = view.repo.uid().unwrap_or_default();
    let digest = Sha256::digest(format!("{uid}/{}/{number}", view.now.as_nanosecond()));
    digest.iter().take(4).fold(0, |id, byte| (id << 8) | u32::from(*byte))
}

fn is_ending(pod: &Pod) -> bool {
    PodLife::of(pod) == PodLife::Ending
}

fn tell_verdict(view: &SeatsView, verdict: SeatsVerdict, plan: &mut SeatsPlan) {
    let SeatsVerdict { holds, warns, reason, message } = verdict;
    let same = |c: &Condition| c.type_ == condition::SEATS_READY && c.reason == reason;
    let told = plan.conditions.iter().any(same);
    if warns && !told {
        plan.notices.push(EventNotice::warning(reason, message.clone()));
    }
    condition::set_condition(
        &mut plan.conditions,
        condition::SEATS_READY,
        holds,
        reason,
        message,
        view.repo.metadata.generation,
        &Time(view.now),
    );
}
