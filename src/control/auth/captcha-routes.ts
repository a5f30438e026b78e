import { timingSafeEqual } from 'node:crypto'
import { isUuid, newId } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { invalidField } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { normaliseAnswer, pictureChallenge, wordChallenge } from './captcha.ts'
import { captchaWork, isWorked } from './captcha-work.ts'
import { purposes } from './credentials.ts'
import { captchaLifeMs } from './rules.ts'
import type { authOperations } from './schema.ts'
import { addCaptcha, spendCaptcha } from './session-store.ts'

type CaptchaDeps = Pick<Deps, 'db' | 'vault' | 'clock' | 'config'>

export const captchaHandlers = (deps: CaptchaDeps): Pick<Handlers<typeof authOperations>, 'getCaptcha'> => ({
  getCaptcha: {
    read: async ({ query }) => {
      const challenge = query.format === 'text' ? wordChallenge() : await pictureChallenge()
      const id = newId()
      const expiresAt = new Date(deps.clock.now().getTime() + captchaLifeMs)
      const isText = challenge.text !== undefined
      await addCaptcha(deps.db, id, hashOf(deps, id, challenge.answer), expiresAt, isText ? captchaWork.bits : 0)
      const text = isText ? { captcha_text: challenge.text, captcha_work: captchaWork } : {}
      return { captcha_id: id, captcha_image: challenge.image, ...text }
    },
  },
})

/** The hash of an answer includes the captcha's id, so that equal answers have different hashes in the database. */
const hashOf = ({ vault }: CaptchaDeps, id: string, answer: string) =>
  vault.hash(purposes.captcha, `${id} ${normaliseAnswer(answer)}`)

/**
 * Checks an answer and deletes the captcha, whether the answer is right or wrong.
 * @throws ApiError 400 if the answer is wrong, late, or not the first one for this captcha
 */
export async function checkCaptcha(
  deps: CaptchaDeps,
  id: string,
  answer: string,
  proof: string | null | undefined,
): Promise<void> {
  if (!deps.config.captchaRequired) return
  const stored = isUuid(id) ? await spendCaptcha(deps.db, id) : undefined
  const inTime = stored !== undefined && stored.expiresAt > deps.clock.now()
  if (inTime && timingSafeEqual(stored.answerHash, hashOf(deps, id.toLowerCase(), answer))) {
    if (stored.workBits === 0 || (await isWorked(id.toLowerCase(), proof ?? '', stored.workBits))) return
    throw invalidField('captcha_proof', 'is not the proof of work that `captcha_work` requires. Request a new captcha.')
  }
  throw invalidField('captcha_answer', 'is wrong, or the captcha has expired. Request a new captcha and solve it.')
}
