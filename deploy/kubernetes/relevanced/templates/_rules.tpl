{{- /*
The rules for this release alone: its thresholds, and nothing of another release, whose own rules record series of the same
names. Every selector gets the namespace and the job of this release, and so does every rule as labels.
*/ -}}

{{- define "relevanced.groups" -}}
{{- $of := .Values.prometheusRule -}}
{{- include "relevanced.checkRules" . -}}
{{- range $path, $_ := .Files.Glob "rules/*.yml" }}
{{- range $group := ($.Files.Get $path | fromYaml).groups }}
- name: {{ $group.name }}
  {{- with get $group "interval" }}
  interval: {{ . }}
  {{- end }}
  rules:
    {{- range $rule := $group.rules }}
    {{- $replaced := and $of.scoreFloors (eq (get $rule "record") "relevanced:score_floor") }}
    {{- if not (or $replaced (has (get $rule "alert") $of.disabled)) }}
    - {{- include "relevanced.rule" (dict "root" $ "rule" $rule) | nindent 6 }}
    {{- end }}
    {{- end }}
    {{- if eq $group.name "relevanced_settings" }}
    {{- range $metric, $ratio := $of.driftFloors }}
    {{- $labels := dict "metric" $metric }}
    {{- $rule := dict "record" "relevanced:drift_floor:ratio" "labels" $labels "expr" (printf "vector(%v)" $ratio) }}
    - {{- include "relevanced.rule" (dict "root" $ "rule" $rule) | nindent 6 }}
    {{- end }}
    {{- range $floor := $of.scoreFloors }}
    {{- $labels := omit $floor "floor" }}
    {{- $rule := dict "record" "relevanced:score_floor" "labels" $labels "expr" (printf "vector(%v)" $floor.floor) }}
    - {{- include "relevanced.rule" (dict "root" $ "rule" $rule) | nindent 6 }}
    {{- end }}
    {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* One rule. Arguments: root context, rule. Single quotes in the selectors: the queries in annotations stand in double ones. */ -}}
{{- define "relevanced.rule" -}}
{{- $of := .root.Values.prometheusRule -}}
{{- $scope := printf "namespace='%s',job='%s'" .root.Release.Namespace (include "relevanced.job" .root) -}}
{{- $rule := omit .rule "labels" "annotations" "expr" -}}
{{- $labels := mergeOverwrite (dict) (default (dict) (get .rule "labels")) (dict "namespace" .root.Release.Namespace "job" (include "relevanced.job" .root)) -}}
{{- if get .rule "alert" -}}
{{- $_ := mergeOverwrite $labels $of.alertLabels -}}
{{- end -}}
{{- $setting := get $labels "setting" -}}
{{- $expr := .rule.expr -}}
{{- if and $setting (hasKey $of.settings $setting) -}}
{{- $_ := set $rule "expr" (printf "vector(%v)" (get $of.settings $setting)) -}}
{{- else -}}
{{- $braced := regexReplaceAll "(relevanced[_:][a-z0-9_:]+|ALERTS)\\{" $expr (printf "${1}{%s," $scope) -}}
{{- $_ := set $rule "expr" (regexReplaceAll "(relevanced[_:][a-z0-9_:]+)([^a-z0-9_:{]|$)" $braced (printf "${1}{%s}${2}" $scope)) -}}
{{- end -}}
{{- $_ := set $rule "labels" $labels -}}
{{- if get .rule "annotations" -}}
{{- $annotations := dict -}}
{{- range $name, $text := .rule.annotations -}}
{{- $_ := set $annotations $name (regexReplaceAll "(relevanced[_:][a-z0-9_:]+)\\{" $text (printf "${1}{%s," $scope)) -}}
{{- end -}}
{{- if $of.runbookUrl -}}
{{- $_ := set $annotations "runbook_url" (printf "%s%s" $of.runbookUrl (trimPrefix "runbook.md" $annotations.runbook_url)) -}}
{{- end -}}
{{- $_ := set $rule "annotations" $annotations -}}
{{- end -}}
{{ toYaml $rule }}
{{- end -}}

{{- /* Fails where a value names a setting or an alert that does not exist: it would have no effect. */ -}}
{{- define "relevanced.checkRules" -}}
{{- $of := .Values.prometheusRule -}}
{{- $settings := dict -}}
{{- $alerts := dict -}}
{{- range $path, $_ := .Files.Glob "rules/*.yml" -}}
{{- range $group := ($.Files.Get $path | fromYaml).groups -}}
{{- range $rule := $group.rules -}}
{{- if get $rule "alert" -}}
{{- $_ := set $alerts $rule.alert true -}}
{{- else if eq (get $rule "record") "relevanced:setting" -}}
{{- $_ := set $settings $rule.labels.setting true -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := $of.settings -}}
{{- if not (hasKey $settings $name) -}}
{{- fail (printf "prometheusRule.settings.%s: must be one of %s" $name (keys $settings | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- range $name := $of.disabled -}}
{{- if not (hasKey $alerts $name) -}}
{{- fail (printf "prometheusRule.disabled: %s: must be one of %s" $name (keys $alerts | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
