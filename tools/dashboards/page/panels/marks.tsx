import type { UPlotConfigBuilder } from '@grafana/ui';
import { useLayoutEffect } from 'react';
import type { Mark } from './props.ts';

/** Annotations: a dashed line and a triangle below, as Grafana draws them. */
export function Marks({ config, marks }: { readonly config: UPlotConfigBuilder; readonly marks: readonly Mark[] }) {
  useLayoutEffect(() => {
    config.addHook('draw', ({ ctx, bbox, valToPos, scales }) => {
      ctx.save();
      ctx.lineWidth = 2;
      for (const { at, color } of marks) {
        if (at < (scales.x?.min ?? 0) || at > (scales.x?.max ?? 0)) continue;
        const x = valToPos(at, 'x', true);
        ctx.strokeStyle = color;
        ctx.fillStyle = color;
        ctx.setLineDash([5, 5]);
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        ctx.beginPath();
        ctx.moveTo(x, bbox.top + bbox.height);
        ctx.lineTo(x - 5, bbox.top + bbox.height + 6);
        ctx.lineTo(x + 5, bbox.top + bbox.height + 6);
        ctx.fill();
      }
      ctx.restore();
    });
  }, [config, marks]);
  return null;
}
