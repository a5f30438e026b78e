import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { RefreshCw } from 'lucide-react'
import { useState } from 'react'
import { api } from '../api/client.ts'
import { workFor } from '../api/captcha-work.ts'
import { isCaptchaAsked } from '../api/settings.ts'
import { Button } from '../ui/button.tsx'
import { Field, Form, type Values } from '../ui/form.tsx'
import { Problem, Skeleton } from '../ui/states.tsx'
import { Door } from '../shell/door.tsx'
import { accept } from './sign-in.tsx'

const captchaKey = 'captcha'

/** The proof of work for a text captcha, which takes about a second; empty for other captchas. */
async function proofOf(values: Values): Promise<{ captcha_proof?: string }> {
  const [iterations, bits] = values.text('captcha_work').split(' ').map(Number)
  if (!iterations || !bits) return {}
  return { captcha_proof: await workFor(values.text('captcha_id'), { iterations, bits }) }
}

export function SignUp() {
  const { next } = useSearch({ from: '/signup' })
  const navigate = useNavigate()
  const client = useQueryClient()

  const register = async (values: Values) => {
    const credentials = { email: values.text('email'), password: values.text('password') }
    try {
      await api.register({
        body: {
          ...credentials,
          first_name: values.optional('first_name'),
          last_name: values.optional('last_name'),
          captcha_id: values.text('captcha_id'),
          captcha_answer: values.text('captcha_answer'),
          ...(await proofOf(values)),
        },
      })
    } catch (cause) {
      // A captcha is valid for one attempt only, so fetch another one.
      void client.invalidateQueries({ queryKey: [captchaKey] })
      throw cause
    }
    accept(await api.login({ body: credentials }))
    await navigate({ href: next ?? '/apps', replace: true })
  }
  return (
    <Door
      title="Create your account"
      lead={
        <>
          Already have one?{' '}
          <Link to="/signin" search={next ? { next } : {}} className="font-medium text-accent-text hover:underline">
            Sign in
          </Link>
        </>
      }
    >
      <Form wide submit="Create account" send={register}>
        <div className="grid grid-cols-2 gap-3">
          <Field label="First name" name="first_name" autoComplete="given-name" maxLength={100} autoFocus />
          <Field label="Last name" name="last_name" autoComplete="family-name" maxLength={100} />
        </div>
        <Field label="Email" name="email" type="email" required autoComplete="username" />
        <Field
          label="Password"
          name="password"
          type="password"
          required
          minLength={8}
          autoComplete="new-password"
          hint="At least 8 characters. Several words are easy to remember and hard to guess."
        />
        {isCaptchaAsked && <Captcha />}
      </Form>
    </Door>
  )
}

function Captcha() {
  const [format, setFormat] = useState<'image' | 'text'>('image')
  const captcha = useQuery({
    queryKey: [captchaKey, format],
    queryFn: ({ signal }) => api.getCaptcha({ query: { format } }, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  })
  if (captcha.error) return <Problem error={captcha.error} retry={() => void captcha.refetch()} />
  if (!captcha.data) return <Skeleton className="h-24" />
  const { captcha_id, captcha_image, captcha_text, captcha_work: work } = captcha.data
  return (
    <div className="space-y-2">
      <input type="hidden" name="captcha_id" value={captcha_id} />
      <input type="hidden" name="captcha_work" value={work ? `${work.iterations} ${work.bits}` : ''} />
      <div className="flex items-center gap-2">
        {format === 'image' ? (
          <img
            src={captcha_image}
            alt="Letters to read"
            className="h-16 flex-1 rounded-md border border-line bg-white object-contain"
          />
        ) : (
          <p className="flex-1 rounded-md border border-line bg-bg px-3 py-2">{captcha_text ?? captcha_image}</p>
        )}
        <Button look="quiet" size="icon" aria-label="Another one" onClick={() => void captcha.refetch()}>
          <RefreshCw aria-hidden="true" size={15} />
        </Button>
      </div>
      <Field
        label={format === 'image' ? 'What does the picture say?' : 'Your answer'}
        name="captcha_answer"
        required
        autoComplete="off"
        spellCheck={false}
      />
      <button
        type="button"
        className="text-xs font-medium text-accent-text hover:underline"
        onClick={() => setFormat(format === 'image' ? 'text' : 'image')}
      >
        {format === 'image' ? 'Ask me a question in words instead' : 'Show me a picture instead'}
      </button>
    </div>
  )
}
