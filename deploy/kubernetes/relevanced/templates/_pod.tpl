{{- /* "true" where a role uses the secret of a variable: only workers log in to Kafka and to the registry. Arguments: role,
       variable. */ -}}
{{- define "relevanced.uses" -}}
{{- $ofWorkers := or (contains "RELEVANCED_KAFKA__" .variable) (contains "RELEVANCED_REGISTRY__" .variable) -}}
{{- if or (eq .role "worker") (not $ofWorkers) -}}
true
{{- end -}}
{{- end -}}

{{- /* The environment of every container. Arguments: root context, role. */ -}}
{{- define "relevanced.env" -}}
{{- $role := .role -}}
- name: RELEVANCED_LOG__FORMAT
  value: json
{{- range .root.Values.secretFiles }}
- name: {{ .variable }}
  value: {{ printf "/etc/relevanced/secrets/%s/%s" .secret .key | quote }}
{{- end }}
{{- range .root.Values.secretVariables }}
{{- if or (not (contains "PASSWORD" .variable)) (include "relevanced.uses" (dict "role" $role "variable" .variable)) }}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end }}
{{- end }}
{{- with .root.Values.env }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- /* What every container mounts. Arguments: root context, role. */ -}}
{{- define "relevanced.mounts" -}}
{{- $role := .role -}}
- name: config
  mountPath: /etc/relevanced/relevanced.toml
  subPath: relevanced.toml
  readOnly: true
{{- range $index, $file := .root.Values.secretFiles }}
{{- if include "relevanced.uses" (dict "role" $role "variable" $file.variable) }}
- name: secret-{{ $index }}
  mountPath: {{ printf "/etc/relevanced/secrets/%s/%s" $file.secret $file.key | quote }}
  subPath: {{ $file.key }}
  readOnly: true
{{- end }}
{{- end }}
{{- with .root.Values.extraVolumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- /* The volumes of every pod. Arguments: root context, role, configMap (its name). */ -}}
{{- define "relevanced.volumes" -}}
{{- $role := .role -}}
- name: config
  configMap:
    name: {{ .configMap }}
{{- range $index, $file := .root.Values.secretFiles }}
{{- if include "relevanced.uses" (dict "role" $role "variable" $file.variable) }}
- name: secret-{{ $index }}
  secret:
    secretName: {{ $file.secret }}
    defaultMode: 0440
{{- end }}
{{- end }}
{{- with .root.Values.extraVolumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- /* The user of every pod. */ -}}
{{- define "relevanced.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- /* What no container may do. */ -}}
{{- define "relevanced.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end -}}
