"""The vocabulary of the toy world: what customers write, and what it means.

Every table maps a label to the phrases that express it, so a label is never guessed: the generator
(corpus.py) draws the label first and then a phrase for it.  Slots in braces are filled by corpus.py:
{noun} the kind of product ("router"), {date}, {amount}, {agent} a first name of somebody who is not
the customer.  A phrase starts in lower case; the generator capitalises it where a sentence begins.
"""

FIRST_NAMES = """Adam Aisha Alma Amir Ana Andre Anna Anton Arjun Astrid Beatriz Ben Bianca Bruno Carla Carlos Cecilia
Chen Chloe Clara Daniel Daria David Diego Dina Edgar Elena Elias Ella Emil Emma Erik Esther Eva Fatima Felix Fiona Flora
Frank Gabriel Georg Gina Grace Greta Hana Hannah Hassan Hugo Ida Igor Ines Ingrid Irene Isaac Ivan Jana Jasper Joanna
Johan Jonas Jorge Julia Kamal Karen Karl Katya Kenji Kira Lars Laura Leila Lena Leo Linda Lucas Lucia Maja Marco Maria
Martin Mateo Maya Mia Milan Mina Mohamed Nadia Naomi Nils Nina Noah Nora Olga Oliver Omar Oscar Otto Paula Pedro Petra
Priya Rafael Rosa Ruben Ruth Samir Sara Selma Simon Sofia Stefan Tara Theo Thomas Tina Tobias Uma Vera Victor Wanda Wei
Yara Yusuf Zara Zoe""".split()

SURNAMES = """Abbott Adler Alvarez Andersen Arnold Baker Barros Bauer Becker Berger Bianchi Blake Borg Brandt Brooks
Calder Carter Castro Chandra Coleman Cooper Costa Cruz Dahl Delgado Dietrich Dixon Dubois Duran Eklund Evans Farrell
Ferrari Fischer Fletcher Flores Foster Fournier Frost Garcia Gomez Gray Greco Gruber Haas Hale Hansen Harper Hartmann
Hassan Hayes Holm Hopkins Horvat Hughes Ibarra Iversen Jansen Jensen Kaplan Kaya Keller Khan Klein Koch Kovac Kruger
Kumar Lang Larsen Lehmann Lindgren Lopez Lund Marino Marsh Martins Mendez Meyer Mills Molina Moreau Morris Nair Nielsen
Novak Olsen Ortega Osman Palmer Park Pereira Petrov Popescu Porter Quinn Ramos Rao Reed Reyes Ricci Richter Rivera Roth
Rossi Sanders Santos Sato Schmidt Schwarz Sharma Silva Simmons Singh Soto Steiner Stone Suzuki Tanaka Torres Turner
Vargas Vidal Vogel Wagner Walsh Watson Weber Winter Wolf Wright Yilmaz Young Zhang Ziegler Müller Sørensen Núñez Lévêque
Gärtner Åberg Çelik Gómez""".split()

# Surnames that no training text contains; the inventor of surnames never builds one of them either.
STRANGERS = """Abramov Albrecht Amundsen Barlow Bergström Bosch Caruso Chavez Choi Clarke Conti Dalton Demir
Ellison Falk Figueroa Fontaine Gallagher Grimm Haugen Hendricks Hoffmann Inoue Jacobs Jankowski Kelley Kowalski Lambert
Leclerc Lombardi Madsen Maldonado Mancini Mbeki Nakamura Nguyen Nordin Obrien Okafor Pacheco Papadakis Pfeiffer Ramírez
Renard Rosenberg Salazar Schröder Sinclair Sokolov Strand Takeda Thorne Ulrich Vasquez Verhoeven Wallace Whitaker Yamada
Zimmer Zuniga""".split()

BRANDS = """Aero Arbor Atlas Aurora Borealis Cobalt Delta Ember Falcon Halo Helix Juniper Kestrel Lumina Maple Nimbus
Nordlys Onyx Orbit Pixel Quarz Raven Solis Summit Tempo Terra Vektor Vesta Volt Zephyr""".split()

NOUNS = ["router", "headphones", "desk lamp", "coffee maker", "vacuum cleaner", "keyboard", "monitor", "printer",
         "toaster", "speaker", "tablet", "camera", "thermostat", "doorbell", "blender", "air purifier", "smart watch",
         "projector", "heater", "scale"]

MONTHS = "January February March April May June July August September October November December".split()

# category -> [(canonical summary, [phrases])]
PROBLEMS = {
    "billing": [
        ("charged twice", ["I was charged twice for it", "my card statement shows the same charge two times",
                           "you took the payment of {amount} twice", "the amount of {amount} left my account two times"]),
        ("wrong amount on invoice", ["the invoice says {amount}, which is not the price I agreed to",
                                     "the total on the bill is higher than the price in the shop",
                                     "you billed me {amount} although your offer was lower",
                                     "the sum on the invoice does not match the price on the website"]),
        ("invoice missing", ["I never got an invoice for it", "there was no invoice in the box or in my mail",
                             "I still need the bill for my tax papers and cannot find one",
                             "nobody has sent me the invoice so far"]),
        ("discount not applied", ["the discount code was not taken off the price",
                                  "my voucher was accepted but I paid the full price anyway",
                                  "the ten percent from the spring sale are missing on the bill",
                                  "the shop ignored the coupon that I typed in"]),
        ("payment declined", ["my payment is declined again and again", "the checkout rejects my card every time",
                              "your site refuses my credit card although the bank sees no problem",
                              "paying the bill online ends with an error about my card"]),
        ("wrong address on invoice", ["the invoice carries our old company address",
                                      "you printed the wrong name and street on the bill",
                                      "the bill is addressed to a firm that I do not know",
                                      "our accountant cannot book the invoice because the address on it is wrong"]),
    ],
    "delivery": [
        ("parcel not arrived", ["the parcel has still not arrived", "nothing has been delivered so far",
                                "I have been waiting for the package since {date}",
                                "it was due on {date} but the courier never showed up"]),
        ("delivered to wrong address", ["the courier left it at a house in another street",
                                        "the parcel went to my old flat", "it was handed to somebody I do not know",
                                        "the package was dropped at the wrong address"]),
        ("wrong item sent", ["the box contained something I did not order", "you sent me a different model",
                             "I received an item that was meant for another customer",
                             "what I unpacked is not what I ordered"]),
        ("item missing in parcel", ["one item is missing from the parcel", "only half of the goods were in the box",
                                    "the package was incomplete when I opened it",
                                    "the power cable was not in the parcel"]),
        ("tracking not updated", ["the tracking page has not changed since {date}",
                                  "the tracking number is unknown to the carrier",
                                  "the tracking link shows the same status for days",
                                  "I cannot follow the shipment because the tracking code leads nowhere"]),
        ("box arrived damaged", ["the box was crushed when the courier brought it",
                                 "the parcel arrived wet and torn open", "the packaging looked as if a truck ran over it",
                                 "the carton had a big hole on arrival"]),
    ],
    "defect": [
        ("does not turn on", ["it does not turn on any more", "the {noun} stays dead no matter what I press",
                              "nothing happens when I press the power button", "since {date} the {noun} refuses to start"]),
        ("strange noise", ["it makes a loud rattling noise", "the {noun} has started to buzz",
                           "there is a grinding sound inside the {noun}", "it squeaks so loudly that I cannot use it"]),
        ("overheats", ["it gets far too hot", "the {noun} overheats after ten minutes",
                       "the back of the {noun} becomes so hot that I cannot touch it", "the {noun} runs hot and smells of plastic"]),
        ("switches off by itself", ["it switches off by itself", "the {noun} shuts down in the middle of the work",
                                    "every few minutes the {noun} turns itself off", "it goes dark without any reason"]),
        ("cracked housing", ["the housing has a crack", "the plastic cover of the {noun} broke",
                             "a piece of the case came off", "there is a crack across the whole front"]),
        ("button stuck", ["one of the buttons is stuck", "the main button does not come back up",
                          "the left button of the {noun} is jammed", "I can no longer push the button on the side"]),
    ],
    "refund": [
        ("refund not received", ["I sent it back on {date} and have not seen my money",
                                 "the refund you promised has not reached me", "the return was accepted but no refund came",
                                 "I am still waiting to be refunded for the returned {noun}"]),
        ("refund too low", ["you refunded less than I paid", "only {amount} of the price came back to me",
                            "the refund is missing the shipping costs", "the money I got back for the return is not the full sum"]),
        ("wants money back", ["I would like to return it and get my money back", "I want a refund for the {noun}",
                              "it is not what I expected, so please refund me", "I wish to send the {noun} back for a full refund"]),
        ("return label missing", ["I have no label to send it back", "the return label was not in the box",
                                  "I need a return sticker to ship the {noun} back", "your return page does not print a label"]),
        ("return not confirmed", ["I returned the {noun} on {date} and nobody confirmed it",
                                  "there is no confirmation that my return has reached you",
                                  "you have not told me whether the returned {noun} came in",
                                  "I got no message after I gave the return to the post"]),
        ("wants an exchange", ["I would like to exchange it for the bigger one", "please swap the {noun} for a black one",
                               "can I trade the {noun} for another size", "I want to exchange the {noun} for the newer version"]),
    ],
    "account": [
        ("cannot log in", ["I can no longer log in", "the login page says my user name is wrong",
                           "signing in to the shop fails every time", "I am thrown out of my account right after the login"]),
        ("password mail missing", ["the mail to reset my password never comes",
                                   "I asked for a new password and got no message",
                                   "the link for a new password is not sent to me",
                                   "the password reset does not reach my inbox"]),
        ("change email address", ["I want to change the email address of my account",
                                  "please move my account to a new mail address",
                                  "my profile still holds an email address that I lost",
                                  "how do I replace the mail address in my profile"]),
        ("account locked", ["my account has been locked", "your site tells me that my profile is blocked",
                            "after three wrong tries my account is closed to me",
                            "I see a note that my user account was suspended"]),
        ("delete account", ["please delete my account and all my data", "I want my profile to be erased",
                            "I no longer need my user account, so remove it",
                            "kindly wipe my customer profile from your systems"]),
        ("merge two accounts", ["I have two accounts and would like to have one",
                                "my purchases are spread over two profiles, please join them",
                                "can you merge my two user accounts",
                                "I registered twice by mistake and want both profiles combined"]),
    ],
    "setup": [
        ("no wifi connection", ["it does not connect to my wifi", "I cannot get the {noun} into the wireless network",
                                "the {noun} does not accept my wifi password during the setup",
                                "while setting it up the {noun} never joins our network"]),
        ("app does not find device", ["the app does not find the {noun}", "your app keeps searching and shows no device",
                                      "the phone app cannot see the {noun}", "I installed the app but the {noun} is not listed there"]),
        ("manual missing", ["there was no manual with it", "I cannot find the instructions for the {noun}",
                            "the guide for the first steps is missing", "I need the manual of the {noun} in English"]),
        ("firmware update fails", ["the firmware update stops at half", "updating the firmware ends with error {code}",
                                   "the {noun} asks for an update that never finishes",
                                   "each software update of the {noun} breaks off with code {code}"]),
        ("help with mounting", ["I do not know how to fix it to the wall", "which screws do I need to mount the {noun}",
                                "I need help to mount the {noun}", "the holder does not fit when I try to hang it up"]),
        ("pairing fails", ["it does not pair with my phone", "bluetooth pairing with the {noun} fails",
                           "my laptop cannot pair with the {noun}", "I press the pairing key and nothing connects"]),
    ],
    "feature": [
        ("wants dark mode", ["it would be nice if the app had a dark mode", "please add a dark theme to the app",
                             "I would like a night design in the app", "could you offer a dark look for the screen"]),
        ("wants a timer", ["I wish the {noun} had a timer", "could you add a timer in the next version",
                           "a timer is the one function I miss", "please build in a way to stop it after an hour"]),
        ("wants larger text", ["the letters should be larger", "please let me choose a bigger font",
                               "an option for larger text would help my parents",
                               "could the display show the text in a bigger size"]),
        ("wants voice control", ["I would love to control it by voice", "please add voice commands",
                                 "it should listen to spoken commands", "could a future version understand my voice"]),
        ("wants another color", ["please offer the {noun} in green as well", "I would like to see it in more colors",
                                 "a white version would be a good idea", "could you make the {noun} in blue"]),
        ("wants a monthly report", ["a report for each month would be useful", "please add a monthly summary to the app",
                                    "could the app mail me an overview every month",
                                    "I suggest a monthly report about the use"]),
    ],
    "cancellation": [
        ("cancel the order", ["please cancel the order", "I do not need it any more, so stop the order",
                              "I ordered it by mistake and want to cancel",
                              "kindly call off the purchase before it is shipped"]),
        ("cancel the subscription", ["I want to cancel the filter subscription", "please end my monthly subscription",
                                     "I do not want to renew the subscription",
                                     "stop the subscription that came with the {noun}"]),
        ("cancel one item", ["please take one item off the order", "I want to cancel only the second piece",
                             "I ordered two by accident, please cancel one of them",
                             "remove the spare part from the order but keep the {noun}"]),
        ("cancel extended warranty", ["I want to cancel the extended warranty", "please take back the extra warranty",
                                      "the longer warranty is not needed, so cancel it",
                                      "I did not mean to buy the warranty extension and want out of it"]),
        ("stop the newsletter", ["please stop sending me the newsletter", "take me off your mailing list",
                                 "I no longer want your weekly advertising mails",
                                 "I tried to unsubscribe and the newsletter still comes"]),
        ("cancel the repair visit", ["I have to cancel the repair appointment", "please call off the technician for {date}",
                                     "the visit of your technician is not needed any more",
                                     "I cannot keep the repair date and want to cancel it"]),
    ],
}

# sentiment -> sentences (complete, with their stop).  None = the ticket says nothing about its mood.
MOODS = {
    "positive": ["Apart from that I am very happy with the {noun}.", "I love the {noun} and everything else works great.",
                 "Your support has always been excellent, so thank you in advance!",
                 "By the way, {agent} on the phone was wonderful.", "I really like your shop and will gladly order again.",
                 "Thanks a lot for the friendly help last time, it was a pleasure.",
                 "The quality is fantastic, so this is only a small matter.",
                 "I have recommended you to all my friends.", "Great product otherwise, my whole family enjoys it.",
                 "You are the best shop I know, keep up the good work!", "I am delighted with the {noun}, well done.",
                 "It was a nice surprise how fast {agent} answered me before.",
                 "So far I am more than satisfied with you.", "I am sure you will solve this, you always do a brilliant job."],
    "negative": ["This is really frustrating.", "I am very disappointed.", "I am angry that nobody answers my mails.",
                 "What a terrible service!", "I will never buy from you again.", "This is the worst shop I know.",
                 "I am fed up with waiting on the phone.", "Honestly, this is a shame for a company like yours.",
                 "Your agent {agent} was rude and no help at all.", "I have wasted hours on this and I am upset.",
                 "I regret that I ever bought the {noun}.", "It is unacceptable how you treat your customers.",
                 "I am losing my patience with you.", "Nothing but trouble with the {noun}, I am annoyed."],
    "neutral": [None, None, None, "I have attached a photo.", "I already spoke to {agent} about it on {date}.",
                "I bought it as a gift.", "The {noun} is used in our office.", "I am writing on behalf of our team.",
                "I have read the questions and answers on your site.", "It concerns the {noun} only.",
                "{agent} asked me to write to you.", "I checked this again on {date}."],
}

# priority -> sentences.  None = nothing is said, which counts as medium.
URGENCY = {
    "low": ["There is no hurry.", "Take your time.", "It can wait until next month.", "This is not urgent at all.",
            "Whenever you find a moment is fine.", "No rush on this one.", "Answer when it suits you.",
            "It is only a minor point for me, any time will do."],
    "medium": [None, None, None, "Please get back to me within the next days.", "I would like an answer this week.",
               "Please let me know what to do next.", "Can you look into it in the coming days?",
               "A reply by the end of the week would be good."],
    "high": ["I need a solution by tomorrow.", "Please solve this within two days.", "I need it for a trip on {date}, so be quick.",
             "Please treat this with priority.", "We depend on it and cannot wait long.",
             "I have to have an answer by tomorrow morning.", "Please hurry, I need it for work.",
             "It should be settled within 24 hours."],
    "urgent": ["This is an emergency, act immediately.", "Our whole shop stands still because of this.",
               "We are losing sales every hour, call me at once!", "Urgent: I need help right now.",
               "All work in our company has stopped, so respond immediately.",
               "Please drop everything else and help us now.", "Somebody could get hurt, so act at once.",
               "This cannot wait even an hour."],
}

# How a ticket names its product and its order.
CONTEXTS = ["I ordered the {product} on {date}, order number {order}.", "On {date} I bought a {product} (order {order}).",
            "This is about order {order}, the {product}.", "My order is {order} and the product is the {product}.",
            "I am writing about the {product} from order {order}.", "I have a question about my {product}, order {order}.",
            "We own a {product} that we bought under order {order}.", "It is about the {product} I bought on {date}; the order number is {order}.",
            "Order {order}: one {product}, paid on {date}.", "Reference {order}, {product}.",
            "In {month} I bought the {product} from you, order {order}, for {amount}.",
            "The {product} (order {order}) cost me {amount}."]
# The same without the order, and the sentences that bring it later.
CONTEXTS_BARE = ["I bought the {product} on {date}.", "I have a {product} from your shop.", "I am writing about my {product}.",
                 "It is about the {product} which I got in {month}.", "We own a {product}.", "My {product} cost {amount}."]
ORDER_LATER = ["The order number is {order}.", "My order was {order}.", "You find it under order {order}.",
               "Order: {order}.", "For your files: order {order}."]

GREETINGS = ["Hello,", "Hi,", "Dear support team,", "Good morning,", "Hello there,", "Dear Sir or Madam,", "Hi team,",
             "Good afternoon,"]
INTROS = ["my name is {customer}.", "this is {customer}.", "{customer} here.", "I am {customer}, a customer of yours.",
          "{customer} is my name."]
SIGNATURES = ["Regards, {customer}", "Best regards, {customer}", "Thanks, {customer}", "Kind regards, {customer}",
              "Yours, {customer}", "- {customer}", "Thank you, {customer}", "Sincerely, {customer}", "Cheers, {customer}"]
# Where the intro gave the full name, the signature may be the first name alone or absent.
SIGNATURES_SHORT = ["Regards, {first}", "Thanks, {first}", "Best, {first}", None, None, None]
LINKS = ["Unfortunately {p}.", "The problem: {p}.", "{P}.", "{P}.", "{P}.", "Here is my request: {p}.", "It is like this: {p}.",
         "Now {p}.", "I noticed that {p}.", "In short, {p}."]
# Links that need a statement after them; a request or a question takes only the others.
STATEMENT_LINKS = {"Unfortunately {p}.", "Now {p}.", "I noticed that {p}.", "The problem: {p}."}

# Reviews: aspect -> (what praise says, summary of praise, what a complaint says, summary of complaint)
ASPECTS = {
    "setup": (["the setup took two minutes", "it was ready to use at once", "installing it was child's play"], "easy to set up",
              ["the setup took me a whole day", "getting it to run was a nightmare", "the installation is far too complicated"], "hard to set up"),
    "sound": (["it is pleasantly quiet", "I hardly hear it", "it runs without a sound"], "very quiet",
              ["it is as loud as a train", "the noise drives me mad", "it hums all the time"], "too loud"),
    "build": (["it feels solid", "the material is first class", "it is built to last"], "well built",
              ["it feels cheap", "the plastic broke after a week", "it fell apart in my hands"], "poor quality"),
    "price": (["the price is fair", "you get a lot for the money", "it costs half of what others ask"], "good value",
              ["it is far too expensive", "it is not worth the money", "the price is a joke"], "too expensive"),
    "design": (["it looks beautiful", "the design is lovely", "everybody asks me where I got this pretty thing"], "beautiful design",
               ["it looks ugly", "the design is a mess", "it spoils the look of the whole room"], "ugly design"),
    "speed": (["it is amazingly fast", "it reacts in an instant", "it does its work in no time"], "very fast",
              ["it is painfully slow", "I wait ages for it", "it takes forever to react"], "too slow"),
    "size": (["it fits into every corner", "it is small and handy", "it hardly needs any space"], "compact",
             ["it is much too big", "it takes up the whole table", "it is too bulky for my room"], "too big"),
    "power": (["it needs very little power", "it saves me a lot of energy", "my energy bill went down"], "saves energy",
              ["it eats far too much power", "my energy bill went through the roof", "it wastes energy day and night"], "wastes energy"),
}
REVIEW_OPENINGS = ["I have had the {product} since {month}.", "Bought the {product} on {date}.", "The {product} came last week.",
                   "My {product} is a few months old now.", "{customer} here with a few words about the {product}.",
                   "I use the {product} every day.", "After long thought I chose the {product} for {amount}.",
                   "We got the {product} as a present."]
VERDICTS = {
    "positive": ["I would buy it again.", "Highly recommended!", "Five stars from me.", "I love it.", "All in all I am very happy with it.",
                 "A great buy.", "My family is thrilled.", "Best purchase of the year."],
    "negative": ["I would not buy it again.", "Stay away from it.", "One star from me.", "I hate it.", "All in all a big disappointment.",
                 "A waste of time.", "I am sending it back.", "Worst purchase of the year."],
    "neutral": ["It is okay, nothing more.", "All in all average.", "Three stars from me.", "It does what it should.",
                "Not good, not bad.", "Neither a hit nor a miss.", "I have no strong opinion about it.", "It is acceptable."],
}
