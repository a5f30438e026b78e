/**
 * Captchas: a picture of six distorted letters, or a question in words for people who cannot see it. They do not stop a
 * determined attacker, but raise the cost of automated registrations.
 */
import { randomInt } from 'node:crypto'
import { createRequire } from 'node:module'
import type { Canvas, SKRSContext2D } from '@napi-rs/canvas'
import { once } from '../../lib/once.ts'

export interface Challenge {
  /** The captcha as a data URL: a PNG, or plain text. */
  readonly image: string
  /** The question of a text captcha; absent in a picture. */
  readonly text: string | undefined
  readonly answer: string
}

const family = 'MoteCaptcha'
const width = 240
const height = 80
const length = 6
/** Characters in pictures, without those that are easily confused in this font when distorted. */
export const letters = 'ACDEFHJKLMNPRTUVWXY347'

const pick = <T>(items: readonly T[]): T => {
  const item = items[randomInt(items.length)]
  if (item === undefined) throw new Error('BUG: nothing to pick from')
  return item
}
const between = (low: number, high: number) => low + (randomInt(1_000_000) / 1_000_000) * (high - low)

/** Normalizes an answer: case and surrounding space are ignored. */
export const normaliseAnswer = (text: string) => text.trim().toUpperCase()

/**
 * Loads the canvas library and registers the font. Without the font, the canvas would silently draw no text.
 * @throws Error if the font does not load
 */
const canvas = once(async () => {
  const { createCanvas, GlobalFonts } = await import('@napi-rs/canvas')
  const file = createRequire(import.meta.url).resolve(
    '@fontsource/roboto-mono/files/roboto-mono-latin-700-normal.woff2',
  )
  if (!GlobalFonts.registerFromPath(file, family)) throw new Error(`the captcha font does not load: ${file}`)
  return createCanvas
})

/** The undistorted letters on a transparent background: 240 by 80 pixels. */
export async function letterPicture(text: string): Promise<Canvas> {
  const plain = (await canvas())(width, height)
  drawText(plain.getContext('2d'), text)
  return plain
}

export async function pictureChallenge(): Promise<Challenge> {
  const createCanvas = await canvas()
  const answer = Array.from({ length }, () => pick([...letters])).join('')
  const plain = await letterPicture(answer)
  const bent = createCanvas(width, height)
  const context = bent.getContext('2d')
  context.fillStyle = '#f4f2ee'
  context.fillRect(0, 0, width, height)
  drawNoise(context)
  // Shifts each column along two waves, so that no line of the text is straight.
  const [phase, wave, phase2] = [between(0, 6.3), between(25, 40), between(0, 6.3)]
  for (let x = 0; x < width; x++) {
    const shift = 5 * Math.sin(x / wave + phase) + 3 * Math.sin(x / 11 + phase2)
    context.drawImage(plain, x, 0, 1, height, x, shift, 1, height)
  }
  drawCurves(context)
  const png = await bent.encode('png')
  return { image: `data:image/png;base64,${png.toString('base64')}`, text: undefined, answer }
}

function drawText(context: SKRSContext2D, text: string): void {
  context.textBaseline = 'middle'
  for (const [i, letter] of [...text].entries()) {
    context.save()
    context.translate(24 + i * 34 + between(-4, 4), height / 2 + between(-7, 7))
    context.rotate(between(-0.35, 0.35))
    context.transform(1, between(-0.2, 0.2), between(-0.3, 0.3), 1, 0, 0)
    context.font = `${Math.round(between(38, 48))}px ${family}`
    context.fillStyle = `hsl(${randomInt(360)} 60% 30%)`
    context.fillText(letter, -12, 0)
    context.restore()
  }
}

function drawNoise(context: SKRSContext2D): void {
  for (let i = 0; i < 400; i++) {
    context.fillStyle = `hsl(${randomInt(360)} 40% ${randomInt(40, 80)}%)`
    context.fillRect(randomInt(width), randomInt(height), randomInt(1, 3), randomInt(1, 3))
  }
}

/** Draws curves as thick and as dark as the letters, so that they cannot be separated by color or width. */
function drawCurves(context: SKRSContext2D): void {
  for (let i = 0; i < 4; i++) {
    context.beginPath()
    context.moveTo(0, between(10, height - 10))
    context.bezierCurveTo(
      width * 0.3,
      between(0, height),
      width * 0.7,
      between(0, height),
      width,
      between(10, height - 10),
    )
    context.lineWidth = between(2, 3.5)
    context.strokeStyle = `hsl(${randomInt(360)} 60% 35%)`
    context.stroke()
  }
}

const ordinals = ['first', 'second', 'third', 'fourth'] as const
const numbers = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine'] as const
const nouns = [
  'PLANET',
  'GARDEN',
  'WINDOW',
  'BRIDGE',
  'MARKET',
  'SILVER',
  'COPPER',
  'ORANGE',
  'HARBOR',
  'WINTER',
] as const

/** Returns a question of two small tasks. The answer is one letter and one number: "L12". */
export function wordChallenge(): Challenge {
  const [place, noun, a, b] = [randomInt(ordinals.length), pick(nouns), randomInt(1, 10), randomInt(1, 10)]
  const first = pick([
    `Take the ${ordinals[place]} letter of the word ${noun}`,
    `Write down letter number ${numbers[place + 1]} of ${noun}`,
  ])
  const second = pick([`then add ${numbers[a]} and ${numbers[b]}`, `then say what ${numbers[a]} plus ${numbers[b]} is`])
  const text = `${first}, ${second}. Answer with the letter and the number in digits, without a space.`
  const image = `data:text/plain;charset=utf-8,${encodeURIComponent(text)}`
  return { image, text, answer: `${noun.charAt(place)}${a + b}` }
}
