{{/* Name and version of the chart as a label's value: Flux adds a digest to versions of charts from OCI registries, after a `+`. */}}
{{- define "codebutler-crds.chart" -}}
{{- $named := printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- regexReplaceAll "[^A-Za-z0-9]+$" $named "" }}
{{- end }}
