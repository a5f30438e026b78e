/** Renders the chart of one result as SVG: bars of the median with a whisker to the p99, and lines for growth. */
import type { Growth, Unit } from './benchmark.ts'
import type { Measured, Result } from './record.ts'

const width = 800
const labelWidth = 260
const valueWidth = 200
const rowHeight = 24
const plotHeight = 180
const colors = ['#2563eb', '#d97706', '#059669', '#7c3aed', '#dc2626', '#0891b2']
const color = (n: number) => colors[n % colors.length] ?? '#2563eb'

const escape = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
/** Returns the expected value at each point of a series, by the law of its growth (flat or linear). */
function lawful({ law, points }: Growth): { readonly at: number; readonly value: number }[] {
  const [first] = points
  const last = points.at(-1)
  if (law === undefined || first === undefined || last === undefined) return []
  return points.map(({ at }) => ({ at, value: law === 'flat' ? first.value : (last.value * at) / last.at }))
}

const text = (x: number, y: number, content: string, more = '') =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${escape(content)}</text>`

export function figure(value: number): string {
  const size = Math.abs(value)
  if (Number.isInteger(value)) return value.toLocaleString('en-US')
  if (size >= 1000) return Math.round(value).toLocaleString('en-US')
  return size >= 100
    ? value.toFixed(0)
    : size >= 10
      ? value.toFixed(1)
      : size >= 0.1
        ? value.toFixed(2)
        : value.toPrecision(2)
}

interface Panel {
  readonly height: number
  /** Returns the SVG of the panel. @param top vertical position of the panel in the chart */
  draw(top: number): string
}

/** Returns a panel with a bar for each value; all values have the same unit and scale, which begins at 0. */
function bars(unit: Unit, measured: readonly Measured[]): Panel {
  const room = width - labelWidth - valueWidth
  // Cut off an extreme p99, so that the bars of the medians do not become too short.
  const medians = Math.max(...measured.map(({ median }) => median))
  const most = Math.min(Math.max(...measured.map(({ p99 }) => p99)), medians * 2.5) || 1
  const x = (value: number) => labelWidth + (Math.min(value, most) / most) * room
  return {
    height: measured.length * rowHeight + 12,
    draw: top =>
      measured
        .map(({ what, median, p99 }, n) => {
          const y = top + n * rowHeight
          const middle = y + rowHeight / 2 - 2
          return [
            text(labelWidth - 8, middle + 4, what, 'text-anchor="end"'),
            `<rect x="${labelWidth}" y="${y + 3}" width="${Math.max(1, x(median) - labelWidth).toFixed(1)}" height="${rowHeight - 10}" fill="${color(n)}" rx="2"/>`,
            `<path d="M${x(median).toFixed(1)} ${middle}H${x(p99).toFixed(1)}m0 -4v8" stroke="#64748b" fill="none"/>`,
            text(width - valueWidth + 8, middle + 4, `${figure(median)} (p99 ${figure(p99)}) ${unit}`, 'class="value"'),
          ].join('')
        })
        .join('\n'),
  }
}

/**
 * Returns a panel with a line for each series; all series have the same unit and horizontal axis, which is logarithmic
 * if it spans more than a factor of 20.
 */
function lines(series: readonly Growth[]): Panel {
  const points = series.flatMap(one => one.points)
  const [first] = series
  const ats = points.map(({ at }) => at)
  const low = Math.min(...ats)
  const high = Math.max(...ats)
  const logarithmic = low > 0 && high / low > 20
  const scale = (at: number) => (logarithmic ? Math.log(at) : at)
  const span = scale(high) - scale(low) || 1
  const most = Math.max(...points.map(({ value }) => value)) * 1.1 || 1
  const left = 70
  const room = width - left - 30
  const floor = plotHeight - 40
  return {
    height: plotHeight + series.length * 18 + 10,
    draw(top) {
      const x = (at: number) => left + ((scale(at) - scale(low)) / span) * room
      const y = (value: number) => top + floor - (value / most) * (floor - 10)
      const polyline = (points: Growth['points'], style: string) =>
        `<polyline points="${points.map(({ at, value }) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(' ')}" fill="none" ${style}/>`
      const shown = [...new Set(ats)].toSorted((a, b) => a - b)
      const ticks = shown.length <= 8 ? shown : [low, high]
      return [
        `<path d="M${left} ${top}V${top + floor}H${width - 30}" stroke="#94a3b8" fill="none"/>`,
        ...[0, most / 2, most].map(value =>
          text(left - 6, y(value) + 4, figure(value), 'text-anchor="end" class="value"'),
        ),
        ...ticks.map(at => text(x(at), top + floor + 16, figure(at), 'text-anchor="middle" class="value"')),
        text(width - 30, top + floor + 32, first?.along ?? '', 'text-anchor="end" class="value"'),
        ...series.flatMap((one, n) => [
          polyline(lawful(one), `stroke="${color(n)}" stroke-dasharray="4 4"`),
          polyline(one.points, `stroke="${color(n)}" stroke-width="2"`),
          ...(one.points.length > 40
            ? []
            : one.points.map(
                ({ at, value }) =>
                  `<circle cx="${x(at).toFixed(1)}" cy="${y(value).toFixed(1)}" r="3" fill="${color(n)}"/>`,
              )),
          `<rect x="${left}" y="${top + plotHeight + n * 18 - 9}" width="10" height="10" fill="${color(n)}"/>`,
          text(
            left + 16,
            top + plotHeight + n * 18,
            `${one.what}, ${one.unit}${one.law === undefined ? '' : ` (dashed: ${one.law})`}`,
          ),
        ]),
      ].join('\n')
    },
  }
}

/** Renders the chart of a result. @returns the SVG; undefined if nothing was measured */
export function chart(result: Result): string | undefined {
  const byUnit = Map.groupBy(result.measured, ({ unit }) => unit)
  const byAxis = Map.groupBy(result.growth, ({ unit, along }) => `${unit} ${along}`)
  const panels = [
    ...[...byUnit].map(([unit, measured]) => bars(unit, measured)),
    ...[...byAxis.values()].map(series => lines(series)),
  ]
  if (panels.length === 0) return undefined
  let top = 12
  const drawn = panels.map(panel => {
    const part = panel.draw(top)
    top += panel.height
    return part
  })
  const style = 'text{font:12px system-ui,sans-serif;fill:#0f172a}.value{fill:#475569;font-size:11px}'
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${top}" role="img" aria-label="${escape(result.name)}">
<style>${style}</style><rect width="100%" height="100%" fill="#fff"/>
${drawn.join('\n')}
</svg>
`
}
