/** Live line charts on a canvas (uPlot). The code is loaded when a chart is first shown. */
import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { theme } from '../shell/theme.ts'
import { useStore } from '../api/store.ts'
import { windowSeconds } from './window.ts'

export interface Series {
  readonly name: string
  /** Color of the line: the name of a CSS custom property in styles.css, such as `--accent`. */
  readonly color: string
  /** One value for each of the chart's times; null if it is unknown. */
  readonly values: readonly (number | null)[]
}

interface Props {
  /** Accessible description of the chart and its current value. */
  readonly label: string
  /** Times of the values, in seconds since 1970, ascending. */
  readonly times: readonly number[]
  readonly series: readonly Series[]
  readonly format: (value: number) => string
  /** The vertical axis ends at this value or higher. */
  readonly atLeast: number
  readonly heightPx?: number
  /** Time span of the chart, which ends at the newest value. */
  readonly spanSeconds?: number
}

export function Chart({ label, times, series, format, atLeast, heightPx = 160, spanSeconds = windowSeconds }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const chosen = useStore(theme)
  const names = series.map(one => `${one.name} ${one.color}`).join()
  useEffect(() => {
    const element = box.current
    if (!element) return
    const draw = () => {
      plot.current?.destroy()
      const options = optionsOf(element, heightPx, series, format, atLeast, spanSeconds)
      plot.current = new uPlot(options, dataOf(times, series), element)
    }
    draw()
    const dark = matchMedia('(prefers-color-scheme: dark)')
    dark.addEventListener('change', draw)
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: heightPx }))
    observer.observe(element)
    return () => {
      dark.removeEventListener('change', draw)
      observer.disconnect()
      plot.current?.destroy()
      plot.current = undefined
    }
    // A change of one of these inputs requires a new chart. New data does not: it is passed to `setData` below.
  }, [chosen, heightPx, names, atLeast, spanSeconds])
  useEffect(() => plot.current?.setData(dataOf(times, series)), [times, series])
  return (
    <div ref={box} role="img" aria-label={label} className="min-w-0 overflow-hidden" style={{ height: heightPx }} />
  )
}

const dataOf = (times: readonly number[], series: readonly Series[]): uPlot.AlignedData => [
  [...times],
  ...series.map(one => [...one.values]),
]

function optionsOf(
  element: HTMLElement,
  height: number,
  series: readonly Series[],
  format: (value: number) => string,
  atLeast: number,
  spanSeconds: number,
): uPlot.Options {
  const color = (name: string) => resolved(element, name)
  const font = `11px ${getComputedStyle(element).fontFamily}`
  const axis = {
    stroke: color('--faint'),
    font,
    ticks: { show: false },
    grid: { stroke: color('--line'), width: 1 },
    border: { show: false },
  }
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { time: true, range: (_plot, _min, max) => [(max ?? 0) - spanSeconds, max ?? 0] },
      y: { range: (_plot, _min, max) => [0, Math.max(atLeast, (max ?? 0) * 1.15)] },
    },
    axes: [
      {
        ...axis,
        incrs: [60, 600, 3600, 14_400, 86_400, 432_000].filter(step => spanSeconds / step < 8),
        size: 22,
        grid: { show: false },
        values: (_plot, splits) => splits.map(spanSeconds > 86_400 ? day : clock),
      },
      {
        ...axis,
        size: 62,
        splits: (_plot, _axis, min, max) => [min, (min + max) / 2, max],
        values: (_plot, splits) => splits.map(format),
      },
    ],
    padding: [8, 16, 0, 0],
    series: [
      {},
      ...series.map(one => ({
        label: one.name,
        stroke: color(one.color),
        width: 1.5,
        ...(series.length === 1 ? { fill: faded(color(one.color)) } : {}),
        points: { show: false },
      })),
    ],
  }
}

const clock = (seconds: number) =>
  new Date(seconds * 1000).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })

const day = (seconds: number) =>
  new Date(seconds * 1000).toLocaleDateString(undefined, { day: 'numeric', month: 'short' })

/** Resolves a custom property to a color, because a canvas cannot use custom properties. */
function resolved(element: HTMLElement, name: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${name})`
  element.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

const faded = (rgb: string) => rgb.replace(/^rgb\((.*)\)$/, 'rgba($1, 0.1)')
