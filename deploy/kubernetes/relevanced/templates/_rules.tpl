{{- /*
The rules for this release alone, and nothing of another release, whose own rules record series of the same names. Every
selector gets the namespace and the job of this release, and so does every rule as labels. The thresholds are those of its
configuration, which its processes serve.
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
    {{- if not (has (get $rule "alert") $of.disabled) }}
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
{{- $braced := regexReplaceAll "((?:relevanced|process)[_:][a-z0-9_:]+|\\bup|ALERTS|ALERTS_FOR_STATE)\\{" .rule.expr (printf "${1}{%s," $scope) -}}
{{- $_ := set $rule "expr" (regexReplaceAll "((?:relevanced|process)[_:][a-z0-9_:]+)([^a-z0-9_:{]|$)" $braced (printf "${1}{%s}${2}" $scope)) -}}
{{- $_ := set $rule "labels" $labels -}}
{{- if get .rule "annotations" -}}
{{- $annotations := dict -}}
{{- range $name, $text := .rule.annotations -}}
{{- $_ := set $annotations $name (regexReplaceAll "(relevanced[_:][a-z0-9_:]+)\\{" $text (printf "${1}{%s," $scope)) -}}
{{- end -}}
{{- if $of.runbookUrl -}}
{{- $_ := set $annotations "runbook_url" (regexReplaceAll "^[^#]*#" $annotations.runbook_url (printf "%s#" $of.runbookUrl)) -}}
{{- end -}}
{{- $_ := set $rule "annotations" $annotations -}}
{{- end -}}
{{ toYaml $rule }}
{{- end -}}

{{- /* Fails where a value names an alert that does not exist: it would have no effect. */ -}}
{{- define "relevanced.checkRules" -}}
{{- $of := .Values.prometheusRule -}}
{{- $alerts := dict -}}
{{- range $path, $_ := .Files.Glob "rules/*.yml" -}}
{{- range $group := ($.Files.Get $path | fromYaml).groups -}}
{{- range $rule := $group.rules -}}
{{- if get $rule "alert" -}}
{{- $_ := set $alerts $rule.alert true -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name := $of.disabled -}}
{{- if not (hasKey $alerts $name) -}}
{{- fail (printf "prometheusRule.disabled: %s: must be one of %s" $name (keys $alerts | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
