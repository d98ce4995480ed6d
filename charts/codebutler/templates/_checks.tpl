{{/* Fails with a sentence where Helm or the cluster would fail with a riddle. */}}
{{- define "codebutler.installed-once" -}}
{{- if .Values.checkCluster }}{{ include "codebutler.checks" . }}{{ end }}
{{- end }}

{{- define "codebutler.checks" -}}
{{- $role := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "codebutler-controller" }}
{{- if $role }}
{{- $annotations := default dict $role.metadata.annotations }}
{{- $release := index $annotations "meta.helm.sh/release-name" }}
{{- $namespace := index $annotations "meta.helm.sh/release-namespace" }}
{{- if or (ne $release .Release.Name) (ne $namespace .Release.Namespace) }}
{{- fail (printf "CodeButler is installed already, as release %q in namespace %q: one installation serves a whole cluster. Upgrade that one, or uninstall it first." (default "(none)" $release) (default "(none)" $namespace)) }}
{{- end }}
{{- end }}
{{- /* Whoever installs for some namespaces may look into those alone. */}}
{{- $watching := list }}
{{- range $namespace := .Values.namespaces }}
{{- with lookup "rbac.authorization.k8s.io/v1" "Role" $namespace "codebutler-controller-watched" }}{{ $watching = append $watching . }}{{ end }}
{{- end }}
{{- if not .Values.namespaces }}
{{- range $role := (lookup "rbac.authorization.k8s.io/v1" "Role" "" "").items }}
{{- if eq $role.metadata.name "codebutler-controller-watched" }}{{ $watching = append $watching $role }}{{ end }}
{{- end }}
{{- end }}
{{- range $role := $watching }}
{{- $annotations := default dict $role.metadata.annotations }}
{{- $release := index $annotations "meta.helm.sh/release-name" }}
{{- $namespace := index $annotations "meta.helm.sh/release-namespace" }}
{{- if or (ne $release $.Release.Name) (ne $namespace $.Release.Namespace) }}
{{- fail (printf "The namespace %q is looked after already, by release %q in namespace %q: take it out of `namespaces` there, or list others here." $role.metadata.namespace (default "(none)" $release) (default "(none)" $namespace)) }}
{{- end }}
{{- end }}
{{- /* `helm template` has no cluster: there, lookup finds nothing at all. */}}
{{- if lookup "v1" "Namespace" "" "kube-system" }}
{{- if not (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "threads.codebutler.dev") }}
{{- fail "The resources of codebutler.dev are not defined in this cluster: install the chart codebutler-crds first." }}
{{- end }}
{{- /* A claim without a class would wait for ever, and the gateway with it. */}}
{{- if and (include "codebutler.history.own" .) (not .Values.history.persistence.storageClass) (not .Values.namespaces) }}
{{- $classes := list }}
{{- range $class := (lookup "storage.k8s.io/v1" "StorageClass" "" "").items }}
{{- if eq (dig "metadata" "annotations" "storageclass.kubernetes.io/is-default-class" "" $class) "true" }}{{ $classes = append $classes $class }}{{ end }}
{{- end }}
{{- if not (or $classes (lookup "v1" "PersistentVolumeClaim" .Release.Namespace "codebutler-history")) }}
{{- fail "The cluster has no default StorageClass for the volume on which the gateway keeps what happened: set history.persistence.storageClass, history.claim, history.url, or history.persistence.enabled=false to keep it with each pod." }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
