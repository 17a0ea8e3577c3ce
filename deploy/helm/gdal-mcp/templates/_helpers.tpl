{{- define "gdal-mcp.labels" -}}
app.kubernetes.io/name: gdal-mcp
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "gdal-mcp.selector" -}}
app.kubernetes.io/name: gdal-mcp
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The settings file. What must be so on a cluster is above what `settings` says. */ -}}
{{- define "gdal-mcp.settings" -}}
{{- $told := dict
  "engine" (printf "k8s:///%s" .Values.calls.namespace)
  "image" .Values.calls.image
  "runtime" .Values.calls.runtimeClass
  "memory" (printf "%sB" .Values.calls.memory)
  "cpus" (float64 .Values.calls.cpus)
  "pids" (int .Values.calls.pids)
  "concurrent" (int .Values.calls.concurrent)
  "path_map" (list (printf "/data:%s" .Values.storage.claim))
  "public_url" .Values.publicUrl
  "behind_proxy" true
  "issuers" .Values.issuers
  "http_hosts" (append (.Values.settings.http_hosts | default list) (printf "%s.%s.svc:8000" .Release.Name .Release.Namespace))
  "workspaces" (list)
  "workspaces_ro" (list)
-}}
{{- range .Values.workspaces }}{{- $_ := set $told "workspaces" (append $told.workspaces (printf "/data/%s" .)) }}{{- end }}
{{- range .Values.workspacesReadOnly }}{{- $_ := set $told "workspaces_ro" (append $told.workspaces_ro (printf "/data/%s" .)) }}{{- end }}
{{- if .Values.policy }}{{- $_ := set $told "policy" "/etc/gdal-mcp/policy.toml" }}{{- end }}
{{- mergeOverwrite (deepCopy .Values.settings) $told | toToml }}
{{- end }}
