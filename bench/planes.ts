/** Measures several installations of increasing size alternately, so that other load affects all of them. */
import { type Growth, median, type Report } from './benchmark.ts'
import { type Plane, startPlane } from './plane.ts'
import { inTurns, ratioOfRounds, warm } from './turns.ts'

export interface Sized<P = Plane> {
  /** Size of the installation, such as its number of apps. */
  readonly at: number
  readonly plane: P
}

/** Starts a control plane for each size and seeds it with `fill`; `cleanup` stops them. */
export async function planesOf(
  cleanup: AsyncDisposableStack,
  [least, ...more]: readonly [number, ...number[]],
  fill: (plane: Plane, at: number) => Promise<unknown>,
): Promise<readonly [Sized, ...Sized[]]> {
  const make = async (at: number): Promise<Sized> => {
    const plane = cleanup.use(await startPlane())
    await fill(plane, at)
    return { at, plane }
  }
  const planes: [Sized, ...Sized[]] = [await make(least)]
  for (const at of more) planes.push(await make(at))
  return planes
}

/**
 * Measures all installations alternately and reports how the cost grows with their size.
 * @param cost returns the cost of one round: elapsed time or CPU time
 * @returns cost in the largest installation relative to the smallest: the median of the rounds' ratios
 */
export async function growthOf<P>(
  report: Report,
  series: Omit<Growth, 'points'>,
  rounds: number,
  planes: readonly Sized<P>[],
  cost: (plane: P) => Promise<number>,
): Promise<number> {
  const found = await inTurns(
    rounds,
    Object.fromEntries(planes.map(({ at, plane }) => [String(at), () => cost(plane)])),
    warm,
  )
  const of = (at: number | undefined) => found[String(at)] ?? []
  for (const { at } of planes) report.samples(`${series.what}, ${at} ${series.along}`, series.unit, of(at))
  report.growth({ ...series, points: planes.map(({ at }) => ({ at, value: median(of(at)) })) })
  return ratioOfRounds(of(planes.at(-1)?.at), of(planes[0]?.at))
}
