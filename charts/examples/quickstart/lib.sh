# What the quick starts share. Each is run from anywhere, again and again: what is there already is left as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
version=${VERSION:-0.1.0}
dry=
case ${1:-} in
  --dry-run) dry=1; shift ;;
esac

# Runs a command, or only shows it with --dry-run.
run() {
  printf '+'
  printf ' %q' "$@"
  printf '\n'
  [ -n "$dry" ] || "$@"
}

# Names every tool that is missing with the way to get it, before anything is changed.
missing=
need() { # TOOL SENTENCE
  command -v "$1" > /dev/null || missing+="$1 is missing: $2"$'\n'
}
ready() {
  [ -n "$missing" ] || return 0
  printf '%s' "$missing" >&2
  [ -n "$dry" ] && return 0
  echo "Correct that and run this again, or see the commands with --dry-run." >&2
  exit 1
}
need_builder() { # [OTHER TOOLS THAT WOULD DO]
  local tool asleep=
  for tool in ${IMAGE_BUILDER:-} docker podman "$@"; do
    command -v "$tool" > /dev/null || continue
    "$tool" info > /dev/null 2>&1 && return 0
    asleep+="$tool does not answer: start it (docker: systemctl start docker; podman: podman machine start)"$'\n'
  done
  missing+=$asleep
  [ -z "$asleep" ] || return 0
  missing+="docker is missing: install Docker or Podman, which build the images and run the cluster's nodes, or try the product without a cluster: cargo demo"$'\n'
}

# k3d speaks to Docker alone, or to the socket of Podman that DOCKER_HOST names.
need_docker_socket() {
  [ -z "${DOCKER_HOST:-}" ] && command -v podman > /dev/null && ! docker info > /dev/null 2>&1 || return 0
  missing+="k3d needs Docker, or Podman's socket: systemctl --user enable --now podman.socket, and export DOCKER_HOST=unix://\$XDG_RUNTIME_DIR/podman/podman.sock; or try charts/examples/quickstart/kind.sh, which works with Podman as it is"$'\n'
}

# What can't be read of a version is no reason.
need_version() { # TOOL FOUND WANTED SENTENCE
  case $2 in
    [0-9]*) ;;
    *) return 0 ;;
  esac
  [ "$(printf '%s\n' "$3" "$2" | sort -V | sed -n 1p)" = "$3" ] || missing+="$1 is $2, and $3 is needed: $4"$'\n'
}

# The images' programs are built here.
need_rust() {
  local system wanted found
  system=$(uname -s 2> /dev/null || echo "no system that says its name")
  [ "$system" = Linux ] ||
    missing+="this is $system, and the images' programs are built on Linux: use a Linux machine, or a cluster whose registry has the images (IMAGES=there charts/examples/quickstart/cluster.sh REGISTRY)"$'\n'
  command -v cc > /dev/null ||
    missing+="cc is missing: some dependencies are built with a C compiler; Debian has it, apt-get install gcc libc6-dev"$'\n'
  wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
  if ! command -v cargo > /dev/null || ! found=$(rustc --version 2>&1); then
    missing+="cargo is missing: it builds the images' programs; https://rustup.rs has one line for it"$'\n'
    return 0
  fi
  found=${found#rustc }
  found=${found%%[ -]*}
  need_version Rust "$found" "$wanted" "rustup update stable"
}

# Room on this machine for the images' build and a cluster. Both are estimates, and what can't be read is no reason.
room_memory=3000 room_disk=8000
need_room() {
  local memory disk
  memory=$(free -m 2> /dev/null | sed -n 's/^Mem:.* \([0-9][0-9]*\) *$/\1/p') || memory=
  disk=$(df -Pm . 2> /dev/null | sed -n '2s/.* \([0-9][0-9]*\)  *[0-9]*%.*/\1/p') || disk=
  [ "${memory:-$room_memory}" -ge "$room_memory" ] ||
    missing+="$memory MB of memory are free, and building the images and running a cluster takes about $room_memory: end other programs, or use a larger machine"$'\n'
  [ "${disk:-$room_disk}" -ge "$room_disk" ] ||
    missing+="$disk MB of disk are free in $PWD, and images and cluster take about $room_disk: make room first"$'\n'
}

# What a role's pod asks of a node, as the controller makes it: thousandths of a processor, and MiB.
pod_cpu=300 pod_memory=576 pod_disk=1088

# A quantity of Kubernetes as a whole number; nothing where it is written in another way.
millis() {
  case $1 in
    *[!0-9m]* | '' | m*) ;;
    *m) echo "${1%m}" ;;
    *) echo "$(($1 * 1000))" ;;
  esac
}
mebibytes() {
  local figure=${1%%[!0-9]*}
  [ -n "$figure" ] || return 0
  case ${1#"$figure"} in
    '') echo "$((figure >> 20))" ;;
    k) echo "$((figure * 1000 >> 20))" ;;
    M) echo "$((figure * 1000000 >> 20))" ;;
    G) echo "$((figure * 1000000000 >> 20))" ;;
    Ki) echo "$((figure >> 10))" ;;
    Mi) echo "$figure" ;;
    Gi) echo "$((figure << 10))" ;;
    Ti) echo "$((figure << 20))" ;;
  esac
}

# Judges if some node of the cluster can take a role's pod. Where none can, the first thread would wait for one.
need_nodes() {
  local nodes off cpu memory disk seen=
  nodes=$(kubectl get nodes --request-timeout=10s -o 'jsonpath={range .items[*]}{.spec.unschedulable}|{.status.allocatable.cpu}|{.status.allocatable.memory}|{.status.allocatable.ephemeral-storage}{"\n"}{end}' 2> /dev/null) || return 0
  while IFS='|' read -r off cpu memory disk; do
    [ -n "$cpu$memory" ] && [ "$off" != true ] || continue
    cpu=$(millis "$cpu") memory=$(mebibytes "$memory") disk=$(mebibytes "$disk")
    [ "${cpu:-$pod_cpu}" -lt "$pod_cpu" ] || [ "${memory:-$pod_memory}" -lt "$pod_memory" ] || [ "${disk:-$pod_disk}" -lt "$pod_disk" ] || return 0
    seen="${cpu:-?}m of processor, ${memory:-?} MiB of memory, ${disk:-?} MiB of disk"
  done <<< "$nodes"
  [ -z "$seen" ] || [ -n "${SMALL_NODES:-}" ] ||
    missing+="no node can take a role's pod, which asks for ${pod_cpu}m of processor, $pod_memory MiB of memory and $pod_disk MiB of disk (one has $seen): add a larger node, or start this with SMALL_NODES=yes if an autoscaler will"$'\n'
}

# The gateway's volume for histories gets the default class of the cluster. Helm would say only after the images' build that there is none.
need_storage() { # [HELM ARGUMENTS…]
  local classes
  case " $*" in
    *history.* | *' -f'* | *' --values'*) return 0 ;;
  esac
  classes=$(kubectl get storageclass --request-timeout=10s -o 'jsonpath=classes: {range .items[*]}{.metadata.annotations.storageclass\.kubernetes\.io/is-default-class} {end}' 2> /dev/null) || return 0
  case $classes in
    classes:*true*) return 0 ;;
    classes:*) ;;
    *) return 0 ;;
  esac
  kubectl -n codebutler-system get pvc codebutler-history > /dev/null 2>&1 ||
    missing+="the cluster has no default StorageClass: make one the default, or name one behind REGISTRY with --set history.persistence.storageClass=NAME"$'\n'
}

# The two charts, with images of REGISTRY (empty: of no registry).
install_charts() { # REGISTRY [HELM ARGUMENTS…]
  local registry=$1
  shift
  run helm upgrade --install codebutler-crds charts/codebutler-crds -n codebutler-system --create-namespace
  run helm upgrade --install codebutler charts/codebutler -n codebutler-system --set "images.registry=$registry" "$@"
}

# Waits for the product and says what comes next.
finish() {
  if [ -z "${NO_WAIT:-}" ]; then
    run kubectl -n codebutler-system rollout status deployment/codebutler-controller deployment/codebutler-gateway --timeout=5m
  fi
  printf '\n%s Next, give it a team:\n' "${dry:+With that }CodeButler runs."
  cat <<'END'
  1. Create the Slack app: api.slack.com/apps, From a manifest, charts/codebutler/files/slack-app.yaml.
  2. Apply a team.yaml with its three Secrets and a Repo: charts/codebutler/GETTING-STARTED.md, section Configure.
  3. kubectl -n team wait repo/shop --for=condition=Ready --timeout=1m; write in the channel.
END
}
