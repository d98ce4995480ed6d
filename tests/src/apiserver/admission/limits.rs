//! Limit ranges: what containers leave out is filled in, and pods and claims outside of a range are refused.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object::{self, text_at};
use crate::apiserver::scalars::ExactQuantity;
use crate::apiserver::status::ApiError;
use crate::apiserver::store::ObjectStore;

/// Annotation that says what was filled in.
const FILLED: &str = "kubernetes.io/limit-ranger";
/// Fields of a pod with containers, and what upstream calls one of them.
const GROUPS: [(&str, &str); 2] =
    [("containers", "container"), ("initContainers", "init container")];
const ONE: i128 = 1_000_000_000;

type ResourceAmounts = BTreeMap<String, ExactQuantity>;

/// Requests and limits of a container, or of a whole pod.
#[derive(Clone, Debug, Default)]
struct ResourceBounds {
    requests: ResourceAmounts,
    limits: ResourceAmounts,
}

impl ResourceBounds {
    fn of(container: &Value) -> Self {
        let read = |field: &str| read_amounts(container.pointer(&format!("/resources/{field}")));
        Self { requests: read("requests"), limits: read("limits") }
    }

    fn add(&mut self, other: &Self) {
        combine(&mut self.requests, &other.requests, ExactQuantity::plus);
        combine(&mut self.limits, &other.limits, ExactQuantity::plus);
    }

    fn raise_to(&mut self, other: &Self) {
        let larger = |a: ExactQuantity, b: ExactQuantity| if a.nanos() < b.nanos() { b } else { a };
        combine(&mut self.requests, &other.requests, larger);
        combine(&mut self.limits, &other.limits, larger);
    }

    /// All that runs at once, or what an init container needs before, if that is more.
    fn of_pod(pod: &Value) -> Self {
        let (mut total, mut sidecars, mut peak) =
            (Self::default(), Self::default(), Self::default());
        for container in list_containers(pod, "initContainers") {
            let own = Self::of(container);
            if text_at(container, "/restartPolicy") == Some("Always") {
                sidecars.add(&own);
            } else {
                let mut now = sidecars.clone();
                now.add(&own);
                peak.raise_to(&now);
            }
        }
        for container in list_containers(pod, "containers") {
            total.add(&Self::of(container));
        }
        total.add(&sidecars);
        total.raise_to(&peak);
        total
    }
}

fn combine(
    into: &mut ResourceAmounts,
    more: &ResourceAmounts,
    join: impl Fn(ExactQuantity, ExactQuantity) -> ExactQuantity,
) {
    for (resource, amount) in more {
        let joined = into.get(resource).map_or(*amount, |known| join(*known, *amount));
        into.insert(resource.clone(), joined);
    }
}

fn read_amounts(amounts: Option<&Value>) -> ResourceAmounts {
    let amounts = amounts.and_then(Value::as_object).into_iter().flatten();
    let read = |(name, amount): (&String, &Value)| {
        Some((name.clone(), ExactQuantity::parse(amount.as_str()?)?))
    };
    amounts.filter_map(read).collect()
}

fn list_containers<'a>(pod: &'a Value, group: &str) -> impl Iterator<Item = &'a Value> {
    let containers = pod.pointer(&format!("/spec/{group}")).and_then(Value::as_array);
    containers.into_iter().flatten()
}

/// Items of a type, of all limit ranges of an object's namespace.
fn list_items(store: &ObjectStore, object: &Value, type_: &str) -> Vec<Value> {
    let ranges = store.list("limitranges", Some(object::object_namespace(object))).0;
    let mut found = Vec::new();
    for range in ranges {
        let items = range.value.pointer("/spec/limits").and_then(Value::as_array);
        let items = items.into_iter().flatten();
        found.extend(items.filter(|item| text_at(item, "/type") == Some(type_)).cloned());
    }
    found
}

/// Fills in what containers of a pod leave out.
pub(crate) fn fill_limits(store: &ObjectStore, pod: &mut Value) {
    let mut filled = Vec::new();
    for item in list_items(store, pod, "Container") {
        filled.extend(fill_item(pod, &item));
    }
    if filled.is_empty() {
        return;
    }
    let said = format!("LimitRanger plugin set: {}", filled.join("; "));
    if let Some(metadata) = pod.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| Map::new().into());
        annotations[FILLED] = said.into();
    }
}

fn fill_item(pod: &mut Value, item: &Value) -> Vec<String> {
    let (requests, limits) = find_defaults(item);
    let mut filled = Vec::new();
    for (group, word) in GROUPS {
        let containers = pod.pointer_mut(&format!("/spec/{group}"));
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            let name = text_at(container, "/name").unwrap_or_default().to_owned();
            for (field, what, defaults) in
                [("requests", "request", &requests), ("limits", "limit", &limits)]
            {
                if defaults.is_empty() {
                    continue;
                }
                let set = fill_amounts(&mut container["resources"], field, defaults);
                if !set.is_empty() {
                    filled.push(format!("{} {what} for {word} {name}", set.join(", ")));
                }
            }
        }
    }
    filled
}

/// Default requests and limits. A range names a maximum or a minimum alone, most often.
fn find_defaults(item: &Value) -> (Map<String, Value>, Map<String, Value>) {
    let named = |field: &str| item[field].as_object().cloned().unwrap_or_default();
    let mut limits = named("default");
    for (resource, amount) in named("max") {
        limits.entry(resource).or_insert(amount);
    }
    let mut requests = named("defaultRequest");
    for (resource, amount) in limits.clone().into_iter().chain(named("min")) {
        requests.entry(resource).or_insert(amount);
    }
    (requests, limits)
}

fn fill_amounts(resources: &mut Value, field: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let mut set = Vec::new();
    for (resource, amount) in defaults {
        let known = &mut resources[field][resource];
        if known.is_null() {
            *known = amount.clone();
            set.push(resource.clone());
        }
    }
    set.sort_unstable();
    set
}

/// Refuses a new pod, or a claim of a new size, that a limit range of its namespace does not allow. As upstream does,
/// this comes after what is wrong with an object by itself.
pub(crate) fn review_limits(
    store: &ObjectStore,
    kind: &ServedKind,
    value: &Value,
    live: Option<&Value>,
) -> Result<(), ApiError> {
    let mut wrong = Vec::new();
    let size = |claim: &Value| claim.pointer("/spec/resources").cloned();
    if kind.is("", "pods") && live.is_none() {
        for item in list_items(store, value, "Container") {
            for (group, _) in GROUPS {
                for container in list_containers(value, group) {
                    judge_bounds(&item, "Container", &ResourceBounds::of(container), &mut wrong);
                }
            }
        }
        for item in list_items(store, value, "Pod") {
            judge_bounds(&item, "Pod", &ResourceBounds::of_pod(value), &mut wrong);
        }
    } else if kind.is("", "persistentvolumeclaims") && live.and_then(size) != size(value) {
        let type_ = "PersistentVolumeClaim";
        let asked = ResourceBounds {
            requests: read_amounts(value.pointer("/spec/resources/requests")),
            ..ResourceBounds::default()
        };
        for item in list_items(store, value, type_) {
            judge_least(&item, type_, &asked, &mut wrong);
            for (resource, most) in read_amounts(item.get("max")) {
                let over =
                    asked.requests.get(&resource).filter(|found| found.nanos() > most.nanos());
                wrong.extend(over.map(|found| exceeds(&resource, type_, most, "request", *found)));
            }
        }
    }
    // Each is said once, however many containers it is about.
    let mut said: Vec<String> = Vec::new();
    for why in wrong {
        if !said.contains(&why) {
            said.push(why);
        }
    }
    let why = match &said[..] {
        [] => return Ok(()),
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    };
    Err(ApiError::forbidden(&kind.group, &kind.plural, object::object_name(value), &why))
}

fn judge_bounds(item: &Value, type_: &str, found: &ResourceBounds, wrong: &mut Vec<String>) {
    judge_least(item, type_, found, wrong);
    for (resource, most) in read_amounts(item.get("max")) {
        let over = |found: &&ExactQuantity| found.nanos() > most.nanos();
        match found.limits.get(&resource) {
            None => wrong.push(format!(
                "maximum {resource} usage per {type_} is {}.  No limit is specified",
                most.canonical()
            )),
            Some(limit) if over(&limit) => {
                wrong.push(exceeds(&resource, type_, most, "limit", *limit));
            }
            Some(_) => {
                let request = found.requests.get(&resource).filter(over);
                wrong.extend(
                    request.map(|request| exceeds(&resource, type_, most, "request", *request)),
                );
            }
        }
    }
    for (resource, ratio) in read_amounts(item.get("maxLimitRequestRatio")) {
        wrong.extend(judge_ratio(&resource, type_, ratio, found));
    }
}

fn exceeds(
    resource: &str,
    type_: &str,
    most: ExactQuantity,
    what: &str,
    found: ExactQuantity,
) -> String {
    let (most, found) = (most.canonical(), found.canonical());
    format!("maximum {resource} usage per {type_} is {most}, but {what} is {found}")
}

fn judge_least(item: &Value, type_: &str, found: &ResourceBounds, wrong: &mut Vec<String>) {
    for (resource, least) in read_amounts(item.get("min")) {
        let begin = format!("minimum {resource} usage per {type_} is {}", least.canonical());
        let under = |found: &&ExactQuantity| found.nanos() < least.nanos();
        let limit = found.limits.get(&resource).filter(under);
        match found.requests.get(&resource) {
            None => wrong.push(format!("{begin}.  No request is specified")),
            Some(request) if under(&request) => {
                wrong.push(format!("{begin}, but request is {}", request.canonical()));
            }
            Some(_) => {
                let said =
                    limit.map(|limit| format!("{begin}, but limit is {}", limit.canonical()));
                wrong.extend(said);
            }
        }
    }
}

fn judge_ratio(
    resource: &str,
    type_: &str,
    ratio: ExactQuantity,
    found: &ResourceBounds,
) -> Option<String> {
    let begin =
        format!("{resource} max limit to request ratio per {type_} is {}, but", ratio.canonical());
    let nanos = |amounts: &ResourceAmounts| amounts.get(resource).map_or(0, |found| found.nanos());
    let (request, limit) = (nanos(&found.requests), nanos(&found.limits));
    if request <= 0 {
        return Some(format!("{begin} no request is specified or request is 0"));
    }
    if limit <= 0 {
        return Some(format!("{begin} no limit is specified or limit is 0"));
    }
    let millionths = (limit * 1_000_000 + request / 2) / request;
    let (whole, part) = (millionths / 1_000_000, millionths % 1_000_000);
    (limit * ONE > ratio.nanos() * request)
        .then(|| format!("{begin} provided ratio is {whole}.{part:06}"))
}
