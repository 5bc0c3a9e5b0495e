// Dashboards, rules and alerts as a Prometheus mixin: what stands in ../grafana and ../prometheus, for jsonnet.
local groups(texts) = std.flatMap(function(text) std.parseYaml(text).groups, texts);
{
  grafanaDashboards+:: {
    'relevanced-experiment.json': import '../grafana/dashboards/experiment.json',
    'relevanced-overview.json': import '../grafana/dashboards/overview.json',
    'relevanced-pipeline.json': import '../grafana/dashboards/pipeline.json',
    'relevanced-segment.json': import '../grafana/dashboards/segment.json',
  },
  prometheusAlerts+:: {  // a group has its alerts beside the rules that they read, and is evaluated in order
    groups+: groups([
      importstr '../prometheus/rules/changes.yml',
      importstr '../prometheus/rules/experiments.yml',
      importstr '../prometheus/rules/freshness.yml',
      importstr '../prometheus/rules/installations.yml',
      importstr '../prometheus/rules/judged.yml',
      importstr '../prometheus/rules/links.yml',
      importstr '../prometheus/rules/pipeline.yml',
      importstr '../prometheus/rules/settings.yml',
      importstr '../prometheus/rules/traffic.yml',
    ]),
  },
}
