{{/* Holdfast and its webhooks refer to each other by name, so both are in one namespace. */}}
{{- define "holdfast.check" -}}
{{- if ne .Release.Namespace "holdfast-system" }}
{{- fail "install it into namespace holdfast-system: helm install --namespace holdfast-system --create-namespace" }}
{{- end }}
{{- end }}

{{- define "holdfast.labels" -}}
app.kubernetes.io/managed-by: holdfast
app.kubernetes.io/part-of: holdfast
{{- end }}

{{- define "holdfast.metadata" -}}
name: holdfast
namespace: holdfast-system
labels:
  {{- include "holdfast.labels" . | nindent 2 }}
{{- end }}

{{- define "holdfast.podLabels" -}}
app.kubernetes.io/name: holdfast
{{- end }}

{{- define "holdfast.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}
{{- else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}
