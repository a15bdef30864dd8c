import { TableNG } from '@grafana/ui/unstable';
import type { VizProps } from './props.ts';

export function TableViz({ panel, frames, fieldConfig, width, height, timeRange }: VizProps) {
  const { options } = panel;
  const frame = frames[options.frameIndex ?? 0] ?? frames[0];
  if (!frame || frame.length === 0) return <NoData />;
  return (
    <TableNG
      data={frame}
      width={width}
      height={height}
      noHeader={options.showHeader === false}
      showTypeIcons={options.showTypeIcons}
      sortBy={options.sortBy}
      cellHeight={options.cellHeight}
      timeRange={timeRange}
      fieldConfig={fieldConfig}
      enableVirtualization={false}
      frozenColumns={options.frozenColumns?.left}
    />
  );
}

export function NoData({ text = 'No data' }: { readonly text?: string | undefined }) {
  return (
    <div
      style={{ display: 'flex', alignItems: 'center', justifyContent: 'center', height: '100%', fontSize: 16 }}
      className="no-data"
    >
      {text}
    </div>
  );
}
