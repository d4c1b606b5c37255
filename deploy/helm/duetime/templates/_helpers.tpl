{{- define "duetime.labels" -}}
app.kubernetes.io/name: duetime
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "duetime.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "duetime.pod" -}}
# What Kubernetes tells about a Service called duetime-… reads like settings of duetime.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "duetime.container" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "duetime.environment" -}}
envFrom:
  - configMapRef:
      name: {{ .Release.Name }}-settings
  - secretRef:
      name: {{ .Values.secretName }}
{{- end }}

{{- define "duetime.settings" -}}
DUETIME_HOST: "0.0.0.0"
DUETIME_PORT: {{ .Values.server.service.port | quote }}
DUETIME_METRICS_PORT: {{ .Values.metrics.port | quote }}
DUETIME_LOG_FORMAT: json
DUETIME_DATA_DIR: /tmp/duetime
{{- range $name, $value := .Values.settings }}
{{- /* Every number is a float here, and from a million on it would be shown as 1.048576e+06. */}}
{{- if kindIs "float64" $value }}
{{ $name }}: {{ toJson $value | quote }}
{{- else }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end }}
