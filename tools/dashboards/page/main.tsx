import {
  createTheme,
  type DataFrame,
  dateTime,
  EventBusSrv,
  type GrafanaTheme2,
  rangeUtil,
  ThemeContext,
  type TimeRange,
} from '@grafana/data';
import { GlobalStyles, PanelChrome, PanelContextProvider } from '@grafana/ui';
import { type ComponentType, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { fieldConfigOf, prepare, registerTransformers } from './grafana.ts';
import { checkHonoured } from './honoured.ts';
import { type Annotation, allWarnings, type Dashboard, type Panel, type Range, warn } from './model.ts';
import { HeatmapViz } from './panels/heatmap.tsx';
import type { Mark, VizProps } from './panels/props.ts';
import { BarGaugeViz, StatViz } from './panels/stat.tsx';
import { StateTimelineViz } from './panels/state-timeline.tsx';
import { NoData, TableViz } from './panels/table.tsx';
import { TimeSeriesViz } from './panels/time-series.tsx';
import { intervalOf, intervals, query } from './prometheus.ts';
import { type Replace, replacing, resolveVariables, type Shown } from './variables.ts';

const VIZ: Readonly<Record<string, ComponentType<VizProps>>> = {
  timeseries: TimeSeriesViz,
  stat: StatViz,
  bargauge: BarGaugeViz,
  table: TableViz,
  'state-timeline': StateTimelineViz,
  heatmap: HeatmapViz,
};

/** Grafana's grid, in pixels. */
const [COLUMNS, ROW, GAP, MARGIN] = [24, 30, 8, 16];

interface View {
  readonly dashboard: Dashboard;
  readonly base: string;
  readonly range: Range;
  readonly timeRange: TimeRange;
  readonly theme: GrafanaTheme2;
  readonly values: Map<string, string>;
  readonly shown: readonly Shown[];
  readonly marks: readonly Mark[];
}

async function dataOf(view: View, panel: Panel, width: number, replace: Replace): Promise<DataFrame[]> {
  const { base, range, theme } = view;
  const targets = (panel.targets ?? []).filter(({ hide }) => !hide);
  const frames = await Promise.all(
    targets.map(target => {
      const least = target.interval ?? panel.interval;
      const ms = intervalOf(range, panel.maxDataPoints ?? width, least && replace(least));
      const own = replacing(new Map([...view.values, ...Object.entries(intervals(ms, range))]));
      return query(base, { ...target, expr: own(target.expr) }, range, ms, targets.length);
    }),
  );
  return prepare(panel, frames.flat(), theme, replace);
}

function PanelBody({ view, panel, width, height }: { view: View; panel: Panel; width: number; height: number }) {
  const [frames, setFrames] = useState<DataFrame[] | Error>();
  useEffect(() => {
    const replace = replacing(new Map([...view.values, ...Object.entries(intervals(60_000, view.range))]));
    dataOf(view, panel, Math.floor(width), replace)
      .then(setFrames)
      .catch(error => {
        warn(`${panel.title}: ${error}`);
        setFrames(error);
      });
  }, [view, panel, width]);
  const Viz = VIZ[panel.type];
  if (!frames || !Viz) return null;
  if (frames instanceof Error) return <NoData text={frames.message} />;
  const isEmpty = frames.every(({ length }) => length === 0);
  if (isEmpty) return <NoData text={panel.fieldConfig?.defaults.noValue} />;
  return (
    <div className="drawn" style={{ width, height }}>
      <Viz
        panel={panel}
        frames={frames}
        fieldConfig={fieldConfigOf(panel)}
        width={width}
        height={height}
        theme={view.theme}
        timeRange={view.timeRange}
        replace={replacing(view.values)}
        marks={panel.type === 'timeseries' ? view.marks : []}
      />
    </div>
  );
}

/** Returns the panels at their positions on the page. Opens all rows if `all`. */
function laidOut(panels: readonly Panel[], all: boolean): Panel[] {
  const placed: Panel[] = [];
  let moved = 0;
  for (const panel of panels.toSorted((a, b) => a.gridPos.y - b.gridPos.y || a.gridPos.x - b.gridPos.x)) {
    const at = (each: Panel, by: number) => ({ ...each, gridPos: { ...each.gridPos, y: each.gridPos.y + by } });
    if (panel.type !== 'row') {
      placed.push(at(panel, moved));
      continue;
    }
    const isOpen = all || !panel.collapsed;
    placed.push({ ...at(panel, moved), collapsed: !isOpen });
    const inside = panel.panels ?? [];
    const [first, last] = [panel.gridPos.y + 1, Math.max(0, ...inside.map(({ gridPos }) => gridPos.y + gridPos.h))];
    if (!panel.collapsed || inside.length === 0) continue;
    const top = Math.min(...inside.map(({ gridPos }) => gridPos.y));
    if (isOpen) placed.push(...inside.map(each => at(each, moved + first - top)));
    // In the JSON, panels after a collapsed row are placed either directly below it, or as if the row were open.
    const next = panels.filter(({ gridPos }) => gridPos.y > panel.gridPos.y).map(({ gridPos }) => gridPos.y);
    const room = next.length > 0 ? Math.min(...next) - first : 0;
    moved += (isOpen ? last - top : 0) - room;
  }
  return placed;
}

function Header({ view }: { view: View }) {
  const { dashboard, theme, shown, range } = view;
  const box = {
    border: `1px solid ${theme.components.input.borderColor}`,
    background: theme.components.input.background,
    borderRadius: 4,
    padding: '3px 8px',
    whiteSpace: 'nowrap',
  } as const;
  const time = (at: number) => new Date(at * 1000).toISOString().slice(0, 16).replace('T', ' ');
  return (
    <div style={{ padding: `${MARGIN}px ${MARGIN}px 8px`, fontSize: 13 }}>
      <div style={{ display: 'flex', gap: 12, alignItems: 'center' }}>
        <span style={{ fontSize: 20, fontWeight: 500, flexGrow: 1 }}>{dashboard.title}</span>
        <span style={box}>
          {time(range.from)} to {time(range.to)} UTC
        </span>
      </div>
      <div style={{ display: 'flex', flexWrap: 'wrap', gap: 8, paddingTop: 10 }}>
        {shown.map(({ label, text }) => (
          <span key={label} style={{ display: 'flex' }}>
            <span style={{ ...box, background: theme.colors.background.secondary, fontWeight: 500 }}>{label}</span>
            <span style={{ ...box, minWidth: 56 }}>{text}</span>
          </span>
        ))}
        <span style={{ flexGrow: 1 }} />
        {(dashboard.links ?? []).map(({ title }) => (
          <span key={title} style={box}>
            {title}
          </span>
        ))}
      </div>
    </div>
  );
}

function Grid({ view, width, all }: { view: View; width: number; all: boolean }) {
  const panels = laidOut(view.dashboard.panels, all);
  const inner = width - 2 * MARGIN;
  const column = (inner + GAP) / COLUMNS;
  const rows = Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  return (
    <div style={{ position: 'relative', height: rows * (ROW + GAP), margin: `0 ${MARGIN}px 8px` }}>
      {panels.map(panel => {
        const { x, y, w, h } = panel.gridPos;
        const [own, high] = [w * column - GAP, h * (ROW + GAP) - GAP];
        const place = {
          position: 'absolute',
          left: x * column,
          top: y * (ROW + GAP),
          width: own,
          height: high,
        } as const;
        if (panel.type === 'row')
          return (
            <div key={panel.id} style={{ ...place, fontSize: 16, fontWeight: 500, paddingTop: 6 }}>
              {panel.collapsed ? '›' : '⌄'} {panel.title}
              {panel.collapsed && (
                <span style={{ color: view.theme.colors.text.secondary, fontWeight: 400, fontSize: 13 }}>
                  {' '}
                  ({panel.panels?.length} panels)
                </span>
              )}
            </div>
          );
        return (
          <div key={panel.id} style={place} data-panel={panel.title}>
            <PanelChrome
              title={panel.title ?? ''}
              {...(panel.description ? { description: panel.description } : {})}
              width={own}
              height={high}
              displayMode={panel.transparent ? 'transparent' : 'default'}
              padding="md"
            >
              {(innerWidth, innerHeight) => (
                <PanelBody view={view} panel={panel} width={innerWidth} height={innerHeight} />
              )}
            </PanelChrome>
          </div>
        );
      })}
    </div>
  );
}

/** Merges times that are at most one step apart into periods. */
function stretches(times: readonly number[], step: number): { at: number; until: number }[] {
  const all: { at: number; until: number }[] = [];
  for (const time of times) {
    const last = all.at(-1);
    if (last && time - last.until <= step) last.until = time;
    else all.push({ at: time, until: time });
  }
  return all;
}

async function marksOf(
  annotations: readonly Annotation[],
  values: ReadonlyMap<string, string>,
  base: string,
  range: Range,
  theme: GrafanaTheme2,
): Promise<Mark[]> {
  const marks = annotations
    .filter(({ enable }) => enable)
    .map(async ({ name, expr, step, iconColor, useValueForTime }) => {
      const ms = step ? rangeUtil.intervalToMs(step) : 60_000;
      const replace = replacing(new Map([...values, ...Object.entries(intervals(ms, range))]));
      const target = { refId: name, expr: replace(expr) };
      const frames = await query(base, target, range, ms, 1);
      const color = theme.visualization.getColorByName(iconColor);
      return frames.flatMap(({ fields: [time, value] }) => {
        if (useValueForTime) return [...new Set(value?.values)].map(at => ({ at, color }));
        return stretches(time?.values ?? [], ms).map(stretch => ({ ...stretch, color }));
      });
    });
  return (await Promise.all(marks)).flat();
}

async function start(): Promise<void> {
  const query = new URLSearchParams(location.search);
  const need = (name: string) => query.get(name) ?? '';
  const theme = createTheme({ colors: { mode: need('theme') === 'dark' ? 'dark' : 'light' } });
  registerTransformers();
  const dashboard: Dashboard = await (await fetch(`/dashboards/${need('dashboard')}.json`)).json();
  const to = Number(need('to')) / 1000;
  const last = query.get('last') ?? dashboard.time.from.replace('now-', '');
  const range = { from: to - rangeUtil.intervalToSeconds(last), to };
  const [from, until] = [dateTime(range.from * 1000), dateTime(range.to * 1000)];
  const base = need('prometheus');
  const chosen = new Map(query.getAll('var').map(each => each.split('=', 2) as [string, string]));
  const { values, shown } = await resolveVariables(dashboard.templating?.list ?? [], chosen, base, range);
  const marks = await marksOf(dashboard.annotations?.list ?? [], values, base, range, theme);
  for (const panel of dashboard.panels.flatMap(each => [each, ...(each.panels ?? [])])) {
    if (panel.type !== 'row') checkHonoured(panel);
  }
  const timeRange = { from, to: until, raw: { from, to: until } };
  const view: View = { dashboard, base, range, timeRange, theme, values, shown, marks };
  document.body.style.background = theme.colors.background.canvas;
  const context = { eventsScope: 'global', eventBus: new EventBusSrv() };
  const width = Number(need('width'));
  createRoot(document.getElementById('root') as HTMLElement).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <PanelContextProvider value={context}>
        <div style={{ width, color: theme.colors.text.primary, fontFamily: 'Inter' }}>
          <Header view={view} />
          <Grid view={view} width={width} all={query.has('all')} />
        </div>
      </PanelContextProvider>
    </ThemeContext.Provider>,
  );
}

Object.assign(window, { allWarnings });
start().catch(error => {
  document.body.textContent = `failed: ${error.stack}`;
});
