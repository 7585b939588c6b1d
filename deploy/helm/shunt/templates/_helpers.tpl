{{- define "shunt.labels" -}}
app.kubernetes.io/name: shunt
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "shunt.name" -}}
{{- if contains "shunt" .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-shunt" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- /* The token of before stays, where none is given. */ -}}
{{- define "shunt.token" -}}
{{- if .Values.httpToken }}{{ .Values.httpToken }}
{{- else }}
{{- $before := lookup "v1" "Secret" .Release.Namespace (include "shunt.name" .) }}
{{- if $before }}{{ index $before.data "http_token" | b64dec }}{{ else }}{{ randAlphaNum 32 }}{{ end }}
{{- end }}
{{- end }}
