/**
 * Checks for passwords that attackers try first: a published list of leaked passwords, and a few hundred words in every
 * usual spelling ("P@ssw0rd2024!" is "password"). The alternative `@zxcvbn-ts/core` was measured: a hostile password of
 * 64 characters kept the event loop busy for 660 ms, one of 128 for 2.4 s, and version 4.1.2 accepts
 * "correcthorsebatterystaple".
 */
import { createRequire } from 'node:module'

/**
 * About 50,000 leaked passwords (18,000 of them long enough to be allowed here), lower case, most used first
 * (zxcvbn-ts, MIT license). Only its data file is read; its code is not run.
 */
let published: ReadonlySet<string> | undefined
const isPublished = (password: string): boolean => {
  published ??= new Set<string>(createRequire(import.meta.url)('@zxcvbn-ts/language-common/src/passwords.json'))
  return published.has(password)
}

const words = new Set(
  `password passwort passwd passw0rd pass passe passport secret secrets private letmein welcome welcometo changeme
  changeit changemenow default temporary temp admin administrator administrador root toor superuser user username login
  logon guest test tester testing testtest demo sample example master mastermaster access accessgranted server system
  sysadmin oracle mysql postgres database internet computer network windows linux ubuntu debian docker kubernetes google
  facebook twitter instagram youtube linkedin myspace microsoft apple samsung iphone android nokia motorola blackberry
  nintendo playstation xbox pokemon pikachu minecraft fortnite roblox counterstrike warcraft starcraft zelda mario sonic
  iloveyou ilovegod iloveme ilove iloveu loveyou lovely loveme lover lovers love mylove truelove sweetheart sweetie
  darling honey baby babygirl babyboy angel angels angela princess prince queen king kingkong sunshine moonlight rainbow
  starlight stars star shadow shadows dragon dragons phoenix tiger tigers tigger lion lions bear bears eagle eagles
  falcon falcons hawk wolf wolves panther panthers jaguar leopard cheetah monkey monkeys gorilla chicken turkey rabbit
  bunny kitten kitty kittycat hellokitty puppy puppies doggy doggie horse horses pony ponies dolphin dolphins shark
  sharks turtle butterfly ladybug spider spiderman batman superman wolverine ironman hulk avengers superstar rockstar
  starwars startrek skywalker vader darthvader matrix trinity neo gandalf hobbit frodo merlin excalibur arthur camelot
  wizard magic magical mystic genius einstein newton galileo tesla ferrari porsche mercedes corvette mustang camaro
  chevrolet chevy toyota honda yamaha suzuki kawasaki harley harleydavidson bmw audi lamborghini maverick ranger cowboy
  cowboys redskins steelers packers raiders patriots yankees redsox lakers bulls chelsea liverpool arsenal barcelona
  realmadrid manchester juventus celtic rangers everton baseball football basketball softball volleyball hockey soccer
  tennis golf golfer swimming skating skateboard snowboard surfing fishing hunting hunter racing running wrestling
  champion champions winner winners victory trophy player players gamer gamers game gameover ninja samurai warrior
  warriors soldier marine marines army airborne airforce navy police killer assassin sniper hitman murder death zombie
  vampire demon devil lucifer satan hell heaven jesus jesuschrist christ christian church bible faith blessed blessing
  god godisgood godbless trustno trust believe believer freedom liberty justice peace hope destiny forever friend
  friends friendship family mother father mommy daddy brother sister grandma grandpa money dollar dollars million
  millionaire cash gold golden silver diamond diamonds platinum crystal ruby emerald sapphire pearl purple orange yellow
  green blue black white red pink brown scarlet violet cheese chocolate cookie cookies cupcake candy sugar vanilla
  cherry strawberry banana bananas apples peaches peanut butter pepper ginger cinnamon pizza burger coffee cocacola
  pepsi beer vodka whiskey tequila budweiser heineken guinness summer winter spring autumn january february march april
  may june july august september october november december monday tuesday wednesday thursday friday saturday sunday
  christmas halloween birthday holiday vacation london paris berlin madrid moscow chicago boston dallas houston denver
  phoenixaz atlanta brooklyn newyork california florida texas canada america american england scotland ireland france
  germany italia italy brazil mexico australia russia china japan india michael michelle jennifer jessica ashley amanda
  nicole daniel danielle andrew anthony matthew joshua christopher christina christine jonathan benjamin alexander
  alexandra alexis victoria elizabeth samantha stephanie melissa rebecca rachel vanessa natalie natasha jasmine brandon
  brittany heather patrick patricia william charles charlie richard robert thomas george joseph steven jordan justin
  taylor tyler austin hannah madison maria marina martin martha maggie buster bailey cooper rocky rusty lucky lucky7
  sammy toby oliver oscar simba smokey snoopy scooby scoobydoo scooter garfield mickey mickeymouse minnie donald winnie
  winniethepooh barbie cinderella tinkerbell peterpan aladdin nirvana metallica slipknot eminem beatles beyonce elvis
  madonna marley bobmarley whatever nothing something anything everything nobody somebody blahblah whocares hello
  helloworld hellohello goodbye goodluck thankyou please imagine fantasy dreamer dreams midnight morning thunder
  lightning storm stormy hurricane tornado blizzard snowball snowman snowflake icecream cool coolman cooldude awesome
  amazing fantastic beautiful gorgeous handsome sexy sexygirl hottie hotgirl hotstuff playboy pussycat badboy badgirl
  bigdaddy bigboy bigdog bulldog pitbull mother mustang1 corona coronavirus covid lockdown bitcoin ethereum crypto
  blockchain qwerty qwertyuiop qwertz qwertzuiop azerty azertyuiop asdfgh asdfghjkl asdfjkl zxcvbn zxcvbnm qazwsx
  qazwsxedc wsxedc edcrfv rfvtgb qweasd qweasdzxc asdasd asdfasdf qweqwe qwerqwer zxczxc zaqwsx zaqxsw poiuytrewq
  lkjhgfdsa mnbvcxz abcdef abcdefg abcdefgh abcdefghi abcabc abcd aaa zzz xxx letmeinn opensesame sesame abracadabra
  hocuspocus alohomora hogwarts potter harrypotter hermione dumbledore gryffindor slytherin voldemort company business
  office manager director president security secure support service services helpdesk customer marketing sales finance
  development developer engineer production staging backup monitor controller operator anonymous unknown hacker hacked
  hacking exploit matrix1 tomcat jenkins grafana zabbix nagios vagrant raspberry raspberrypi ubnt cisco juniper netgear
  linksys dlink alpine changethis notset nopass nopassword nopasswd mypassword mypass yourpassword thepassword
  newpassword oldpassword mynewpassword passwordpassword passpass passphrase correcthorsebatterystaple`.split(/\s+/),
)

const leet: Readonly<Record<string, string>> = {
  '@': 'a',
  '4': 'a',
  '3': 'e',
  '1': 'i',
  '!': 'i',
  '0': 'o',
  $: 's',
  '5': 's',
  '7': 't',
}

/**
 * Keyboard rows and diagonals, the alphabet and the digits. Any run along one of them, in either direction, is easy to
 * guess.
 */
const walks = [
  '01234567890',
  'abcdefghijklmnopqrstuvwxyz',
  'qwertyuiopasdfghjklzxcvbnm',
  'qwertzuiopasdfghjklyxcvbnm',
  'azertyuiopqsdfghjklmwxcvbn',
  '1qaz2wsx3edc4rfv5tgb6yhn7ujm',
  '1q2w3e4r5t6y7u8i9o0p',
  'q1w2e3r4t5y6u7i8o9p0',
  '!qaz@wsx#edc$rfv',
  '!@#$%^&*()',
].flatMap(walk => [walk, [...walk].reverse().join('')])

/** Returns whether a password is commonly used, in any usual spelling. */
export function isCommonPassword(password: string): boolean {
  const folded = password.toLowerCase()
  const trimmed = folded.replace(/^[^a-z]+|(?<![^a-z])[^a-z]+$/g, '')
  const candidates = [
    folded,
    trimmed,
    unleet(folded),
    unleet(folded.replace(/(?<![\d\W_])[\d\W_]+$/, '')),
    unleet(folded).replace(/[^a-z]+/g, ''),
  ]
  return (
    isPublished(folded) ||
    candidates.some(text => words.has(text) || isTwice(text)) ||
    isRepetition(folded) ||
    isMadeOfWalks(folded)
  )
}

const unleet = (text: string) => [...text].map(char => leet[char] ?? char).join('')

/** Returns whether the text is a common word twice: "monkeymonkey". */
function isTwice(text: string): boolean {
  const half = text.slice(0, text.length / 2)
  return text.length % 2 === 0 && half + half === text && words.has(half)
}

/** Returns whether the text repeats one to four characters: "aaaaaaaa", "abcabcabc". */
function isRepetition(text: string): boolean {
  return [1, 2, 3, 4].some(size => {
    const unit = text.slice(0, size)
    return text.length > size && unit.repeat(Math.ceil(text.length / size)).slice(0, text.length) === text
  })
}

/**
 * Returns whether the text consists of runs of three or more characters along a keyboard row, a keyboard diagonal, the
 * alphabet or the digits (and of single digits): "12345678", "qwerty123", "abc123456".
 */
function isMadeOfWalks(text: string): boolean {
  let rest = text
  while (rest.length > 0) {
    const run = longestRun(rest)
    if (run < 3 && !(run > 0 && rest.length <= 2)) return false
    rest = rest.slice(run)
  }
  return true
}

function longestRun(text: string): number {
  for (let length = text.length; length >= 1; length--) {
    const start = text.slice(0, length)
    if (walks.some(walk => walk.includes(start))) return length
  }
  return 0
}
