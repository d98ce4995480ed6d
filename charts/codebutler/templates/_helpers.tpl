{{/* Labels of every object. Takes (dict "root" $ "name" "codebutler-gateway"). */}}
{{- define "codebutler.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/part-of: codebutler
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ include "codebutler.chart" .root }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Name and version of the chart as a label's value: Flux adds a digest to versions of charts from OCI registries, after a `+`. */}}
{{- define "codebutler.chart" -}}
{{- $named := printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- regexReplaceAll "[^A-Za-z0-9]+$" $named "" }}
{{- end }}

{{/* What pods are selected by: never changes between versions. */}}
{{- define "codebutler.selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/* A full image reference. Takes (dict "root" $ "image" .Values.images.operator). */}}
{{- define "codebutler.image" -}}
{{- with .root.Values.images.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The image in which commands run that an AgentRole names none for. */}}
{{- define "codebutler.workspace" -}}
{{- .Values.images.workspace | default (include "codebutler.image" (dict "root" . "image" (dict "repository" "codebutler-workspace"))) }}
{{- end }}

{{/* What a container needs that is there for its image. */}}
{{- define "codebutler.idle" -}}
resources:
  requests: {cpu: 1m, memory: 8Mi}
  limits: {memory: 32Mi}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* A flag with its value; nothing if it has none. */}}
{{- define "codebutler.flag" -}}
{{- with index . 1 }}--{{ index $ 0 }}={{ . }}{{ end -}}
{{- end }}

{{/* The number of shards among which gateways share Repos; nothing where there is one. Each replica leads for one shard at most. */}}
{{- define "codebutler.shards" -}}
{{- $shards := int .Values.gateway.shards }}
{{- if gt $shards 1 }}
{{- if le (int .Values.gateway.replicas) $shards }}
{{- fail (printf "gateway.shards is %d: each shard has a replica that leads for it, and one more has to stand by. Set gateway.replicas to %d or more." $shards (add1 $shards)) }}
{{- end }}
{{- $shards }}
{{- end }}
{{- end }}

{{/* Where pages are served: for the pod alone unless people sign in. */}}
{{- define "codebutler.pages.address" -}}
{{- if .Values.pages.enabled }}--pages={{ ternary "[::]:8090" "127.0.0.1:8090" (ne .Values.pages.signIn "") }}{{ end -}}
{{- end }}

{{/* The access mode of the chart's own volume for histories; nothing where they are kept elsewhere. */}}
{{- define "codebutler.history.own" -}}
{{- if and .Values.history.persistence.enabled (not .Values.history.claim) (not .Values.history.url) }}{{ .Values.history.persistence.accessMode }}{{ end -}}
{{- end }}

{{/* The gateway's values with pods that follow each other to one node, where the volume can be mounted. The label is new to pods of
an earlier version, which may be on several nodes. */}}
{{- define "codebutler.one-node" -}}
{{- $label := dict "codebutler.dev/history" "codebutler-history" }}
{{- $near := dict "labelSelector" (dict "matchLabels" $label) "topologyKey" "kubernetes.io/hostname" }}
{{- $affinity := dict "podAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $near)) }}
{{- $labels := merge (dict) $label (default dict .podLabels) }}
{{- toYaml (mergeOverwrite (deepCopy .) (dict "podLabels" $labels "topologySpread" false "affinity" (mergeOverwrite $affinity (default dict .affinity)))) }}
{{- end }}

{{/* The nodes that the images are made for. */}}
{{- define "codebutler.nodes" -}}
kubernetes.io/os: linux
{{- with .Values.images.architecture }}
kubernetes.io/arch: {{ . }}
{{- end }}
{{- end }}

{{/* As whom both components run. OpenShift refuses a user that it has not chosen itself. */}}
{{- define "codebutler.user" -}}
{{- $user := deepCopy .Values.podSecurityContext }}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1" }}
{{- range $field := list "runAsUser" "runAsGroup" "fsGroup" }}
{{- if eq (int (default 0 (index $user $field))) 65532 }}{{ $_ := unset $user $field }}{{ end }}
{{- end }}
{{- end }}
{{- toYaml $user }}
{{- end }}

{{/* What is added to all agent pods, as JSON. */}}
{{- define "codebutler.pods" -}}
{{- $pods := deepCopy .Values.agents.pods }}
{{- with .Values.images.architecture }}
{{- $_ := set $pods "nodeSelector" (mergeOverwrite (dict "kubernetes.io/arch" .) (default dict $pods.nodeSelector)) }}
{{- end }}
{{- $user := .Values.agents.podSecurityContext }}
{{- if kindIs "invalid" $user }}{{ $_ := set $pods "securityContext" dict }}{{ end }}
{{- with $user }}{{ $_ := set $pods "securityContext" . }}{{ end }}
{{- toJson $pods }}
{{- end }}

{{/* One component's Deployment. Takes root, name, component (its values), args, ports, volumes, mounts. */}}
{{- define "codebutler.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{ include "codebutler.labels" . | nindent 4 }}
spec:
  replicas: {{ .component.replicas }}
  revisionHistoryLimit: 3
  selector:
    matchLabels: {{ include "codebutler.selector" . | nindent 6 }}
  template:
    metadata:
      labels: {{ include "codebutler.labels" . | nindent 8 }}
        {{- with .component.podLabels }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- with .component.podAnnotations }}
      annotations: {{ toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .name }}
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ .component.terminationGracePeriodSeconds }}
      securityContext: {{ include "codebutler.user" .root | nindent 8 }}
      {{- with .root.Values.images.pullSecrets }}
      imagePullSecrets: {{ range . }}{{ list (dict "name" .) | toYaml | nindent 8 }}{{ end }}
      {{- end }}
      {{- with .component.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      nodeSelector: {{ mergeOverwrite (include "codebutler.nodes" .root | fromYaml) .component.nodeSelector | toYaml | nindent 8 }}
      {{- with .component.tolerations }}
      tolerations: {{ toYaml . | nindent 8 }}
      {{- end }}
      {{- with .component.affinity }}
      affinity: {{ toYaml . | nindent 8 }}
      {{- end }}
      {{- if .component.topologySpread }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{ include "codebutler.selector" . | nindent 14 }}
      {{- end }}
      containers:
        - name: {{ .container }}
          image: {{ include "codebutler.image" (dict "root" .root "image" .root.Values.images.operator) }}
          imagePullPolicy: {{ .root.Values.images.pullPolicy }}
          args: {{ toYaml .args | nindent 12 }}
          env:
            - name: CODEBUTLER_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
            - name: POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: POD_UID
              valueFrom: {fieldRef: {fieldPath: metadata.uid}}
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
            - {name: CODEBUTLER_IDENTITY, value: $(POD_NAME)_$(POD_UID)}
            {{- with .env }}{{ toYaml . | nindent 12 }}{{ end }}
            {{- with .component.extraEnv }}{{ toYaml . | nindent 12 }}{{ end }}
          ports: {{ toYaml .ports | nindent 12 }}
          # A busy node may take its time; only then is it asked whether it lives.
          startupProbe:
            httpGet: {path: /healthz, port: metrics}
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /healthz, port: metrics}
            periodSeconds: 10
            failureThreshold: 3
          readinessProbe:
            httpGet: {path: /readyz, port: metrics}
            periodSeconds: 5
          resources: {{ toYaml .component.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- with .mounts }}{{ toYaml . | nindent 12 }}{{ end }}
            {{- with .component.extraVolumeMounts }}{{ toYaml . | nindent 12 }}{{ end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- with .volumes }}{{ toYaml . | nindent 8 }}{{ end }}
        {{- with .component.extraVolumes }}{{ toYaml . | nindent 8 }}{{ end }}
{{- end }}

{{/* A component's ServiceAccount, Roles and bindings, from the one file that the tests run with. */}}
{{- define "codebutler.rbac" -}}
{{- $ := .root }}
{{- $name := .name }}
{{- $shards := int $.Values.gateway.shards }}
{{- range $document := splitList "\n---\n" ($.Files.Get (printf "files/deploy/%s.yaml" .component)) }}
{{- $object := fromYaml $document }}
{{- include "codebutler.sharded-rules" (dict "object" $object "shards" $shards) }}
{{- if and $.Values.namespaces (hasPrefix "Cluster" $object.kind) }}
{{- include "codebutler.rbac.scoped" (dict "root" $ "name" $name "object" $object) }}
{{- else if has $object.kind (list "Secret" "ConfigMap" "Lease" "EndpointSlice") }}
{{- include "codebutler.filled" (dict "root" $ "name" $name "object" $object) }}
{{- if and (has $object.kind (list "Lease" "EndpointSlice")) (hasPrefix "codebutler-gateway" $object.metadata.name) }}
{{- range $shard := untilStep 1 $shards 1 }}
{{- $own := deepCopy $object }}
{{- $_ := set $own.metadata "name" (include "codebutler.sharded-name" (list $object.metadata.name $shard)) }}
{{- include "codebutler.filled" (dict "root" $ "name" $name "object" $own) }}
{{- end }}
{{- end }}
{{- else if $object.kind }}
---
apiVersion: {{ $object.apiVersion }}
kind: {{ $object.kind }}
metadata:
  name: {{ $object.metadata.name }}
  {{- if $object.metadata.namespace }}
  namespace: {{ $.Release.Namespace }}
  {{- end }}
  labels: {{ include "codebutler.labels" (dict "root" $ "name" $name) | nindent 4 }}
  {{- if eq $object.kind "ServiceAccount" }}
  {{- with (index $.Values (trimPrefix "codebutler-" $name)).serviceAccountAnnotations }}
  annotations: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- with $object.rules }}
rules: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $object.roleRef }}
roleRef: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $object.subjects }}
subjects:
  {{- range . }}
  - kind: {{ .kind }}
    name: {{ .name }}
    namespace: {{ $.Release.Namespace }}
  {{- end }}
{{- end }}
{{- if eq $object.kind "Service" }}
{{- $ports := $object.spec.ports }}
{{- range $shard := untilStep 1 $shards 1 }}
{{- $ports = append $ports (dict "name" (printf "agents-%d" $shard) "port" (add 8443 $shard) "targetPort" 8443) }}
{{- end }}
spec:
  ports: {{ toYaml $ports | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The name of a shard's own object. Takes (list NAME SHARD). */}}
{{- define "codebutler.sharded-name" -}}
codebutler-gateway-{{ index . 1 }}{{ trimPrefix "codebutler-gateway" (index . 0) }}
{{- end }}

{{/* Extends the rights to the gateway's Leases and EndpointSlices, by name, to those of all shards. The first shard's are called as they
are without others. Takes object and shards. */}}
{{- define "codebutler.sharded-rules" -}}
{{- range $rule := .object.rules }}
{{- if or (has "leases" $rule.resources) (has "endpointslices" $rule.resources) (has "endpointslices/restricted" $rule.resources) }}
{{- $names := default list $rule.resourceNames }}
{{- range $shard := untilStep 1 $.shards 1 }}
{{- range $known := $rule.resourceNames }}
{{- if hasPrefix "codebutler-gateway" $known }}
{{- $names = append $names (include "codebutler.sharded-name" (list $known $shard)) }}
{{- end }}
{{- end }}
{{- end }}
{{- if gt $.shards 1 }}{{ $_ := set $rule "resourceNames" $names }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* An object that a component fills and may not create. One that an earlier version of the components created is
left out: it belongs to no release, and Helm would refuse to take it over. It outlives the release, since what is in
it is what an installation that comes back goes on with. */}}
{{- define "codebutler.filled" -}}
{{- $ := .root }}
{{- $object := .object }}
{{- $known := lookup $object.apiVersion $object.kind $.Release.Namespace $object.metadata.name | default dict }}
{{- $release := dig "metadata" "annotations" "meta.helm.sh/release-name" "" $known }}
{{- if or (not $known) (eq $release $.Release.Name) }}
---
apiVersion: {{ $object.apiVersion }}
kind: {{ $object.kind }}
metadata:
  name: {{ $object.metadata.name }}
  namespace: {{ $.Release.Namespace }}
  labels: {{ include "codebutler.labels" (dict "root" $ "name" .name) | nindent 4 }}
    {{- range $label, $value := omit $object.metadata.labels "app.kubernetes.io/name" "app.kubernetes.io/part-of" }}
    {{ $label }}: {{ $value }}
    {{- end }}
  {{- if ne $object.kind "EndpointSlice" }}
  annotations: {helm.sh/resource-policy: keep}
  {{- end }}
{{- with $object.addressType }}
addressType: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* What is a ClusterRole or its binding where all namespaces are watched: the same rights as Roles in the
namespaces that are listed. Of what belongs to no namespace only the review of tokens stays; nodes and volumes are
the cluster's own business then. */}}
{{- define "codebutler.rbac.scoped" -}}
{{- $ := .root }}
{{- $name := .name }}
{{- $object := .object }}
{{- if eq $object.kind "ClusterRole" }}
{{- $own := list }}
{{- $cluster := list }}
{{- range $object.rules }}
{{- if has "tokenreviews" .resources }}{{ $cluster = append $cluster . }}
{{- else if not (or (has "nodes" .resources) (has "persistentvolumes" .resources)) }}{{ $own = append $own . }}{{ end }}
{{- end }}
{{- range $namespace := $.Values.namespaces }}
{{ include "codebutler.rbac.role" (dict "root" $ "name" $name "role" (printf "%s-watched" $object.metadata.name) "namespace" $namespace "rules" $own) }}
{{- end }}
{{- with $cluster }}
{{ include "codebutler.rbac.role" (dict "root" $ "name" $name "role" (printf "%s-%s" $name $.Release.Namespace) "namespace" "" "rules" .) }}
{{- end }}
{{- if and (eq $name $object.metadata.name) (not (has $.Release.Namespace $.Values.namespaces)) }}
{{ include "codebutler.rbac.role" (dict "root" $ "name" $name "role" (printf "%s-shared" $name) "namespace" $.Release.Namespace "rules" (include "codebutler.rbac.shared" $name | fromYamlArray)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* What a component uses of its own namespace if that is not watched itself: AgentRoles that serve all
namespaces, their instructions, and the gateway's authority. */}}
{{- define "codebutler.rbac.shared" -}}
{{- if eq . "codebutler-controller" }}
- {apiGroups: [codebutler.dev], resources: [agentroles], verbs: [list, watch]}
- {apiGroups: [codebutler.dev], resources: [agentroles/status], verbs: [patch]}
- {apiGroups: [""], resources: [configmaps], verbs: [list, watch]}
{{- else }}
- {apiGroups: [codebutler.dev], resources: [agentroles], verbs: [list, watch]}
{{- end }}
{{- end }}

{{/* A Role with its binding, or a ClusterRole where the namespace is empty. */}}
{{- define "codebutler.rbac.role" -}}
{{- $cluster := ternary "Cluster" "" (empty .namespace) }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $cluster }}Role
metadata:
  name: {{ .role }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{ include "codebutler.labels" (dict "root" .root "name" .name) | nindent 4 }}
rules: {{ toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $cluster }}RoleBinding
metadata:
  name: {{ .role }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{ include "codebutler.labels" (dict "root" .root "name" .name) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $cluster }}Role
  name: {{ .role }}
subjects:
  - kind: ServiceAccount
    name: {{ .name }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
