"""Words and templates of tinytagger's texts, for training and held out."""


def split(words):
    """Returns (training, held out): every fifth word of the list is held out."""
    words = words.split()
    return [w for i, w in enumerate(words) if i % 5 != 4], words[4::5]


FIRST = split("""
    Anna Boris Clara David Elena Felix Greta Hugo Irene Jonas Karin Leo Maria Nils Olga Paul Rosa Simon Tara
    Ulrich Vera Walter Xenia Yusuf Zoe Adam Bella Carl Dora Erik Fiona Georg Hanna Ivan Julia Kevin Laura Mark Nora
    Oscar Petra Quentin Rita Stefan Tina Uma Victor Wanda Abel Berta Cyril Daria Emil Flora Gustav Helga Igor Jana
    Kurt Lena Martin Nadia Otto Paula Ralf Sara Theo Ursula Vincent Wilma Alan Beth Colin Diana Edgar Freya Gavin
    Heidi Ian Joyce Keith Lydia Miles Naomi Oliver Pamela Roger Sophie Trevor Valerie Warren Amir Chen Diego Fatima
    Hiro Ines Javier Kenji Leila Mateo Noor Pedro Raj Sana Tomas Wei Aiko Bruno Camila Dmitri Esra Farid Gita Hamid""")
LAST = split("""
    Adler Baker Castle Dorn Ekberg Fischer Graham Holm Iverson Jansen Keller Lindqvist Moreno Novak Oduya Parker
    Quist Rossi Schmidt Turner Ullman Varga Weber Yamada Ziegler Archer Bishop Carver Dalton Ellis Foster Garner
    Hansen Irving Jordan Kramer Larson Mason Nolan Osborn Porter Quinn Ramsey Sawyer Tanner Upton Vaughn Walker
    Abbott Brandt Coleman Drexler Engel Farmer Gruber Hughes Ibsen Jacobs Knight Lambert Meyer Norris Olsen Pierce
    Richter Sanders Thorne Unger Vogel Winkler Young Zimmer Alvarez Becker Conti Duarte Eriksen Ferrari Gomez
    Haddad Ito Jovanovic Kim Lopez Marino Nakamura Ortega Petrov Rahman Santos Tanaka Usman Volkov Wong Yilmaz""")
STREETS = split("""
    Maple Harbor Cedar Mill Orchard Station River Church Garden Summit Willow Bridge Chestnut Meadow Quarry Forest
    Lake Market School Sunset Birch Castle Dale Elm Field Grove Hill Ivy Juniper King Laurel Magnolia North Oak
    Park Queen Rose Spring Temple Union Valley West Abbey Beacon Canal Dove Empire Falcon Granite Heather""")
TOWNS = split("""
    Springfield Riverton Lakewood Ashford Milbrook Oakdale Fairview Kingsport Brookside Hillcrest Westfield Greenville
    Northam Eastleigh Southbury Claremont Stonebridge Redwood Silverton Maplewood Bayview Foxborough Glenwood Harwich
    Ironwood Kelso Linden Marlow Newbury Overton Pineville Rockford Salem Thornton Vernon Windsor Alton Benton Camden
    Dover""")
STREET_KINDS = ["Street", "Road", "Avenue", "Lane", "Drive", "Court", "St.", "Rd.", "Ave.", "Way", "Place"]
HOSTS = split("""
    mailbox postbox inbox webmail letters quickmail bluepost northmail openpost citymail skymail fastbox homemail
    worknet datapost greenbox starmail linkpost riverbox papermail cloudpost brightbox tinymail oakpost seamail""")
ENDINGS = ["com", "org", "net", "example", "io", "co.uk", "de", "eu"]
MONTHS = ("January February March April May June July August September October November December").split()
THINGS = split("""
    report parcel invoice printer garden meeting window project ticket engine backup contract recipe camera lecture
    budget server ladder poster library kettle concert bicycle sample folder museum blanket battery journal cabinet
    lantern workshop keyboard summary carpet""")
COMPANIES = split("""
    Norvex Altira Bexcom Candela Drumlin Everest Fenwick Glowtec Helion Inspira Jubilant Kestrel Lumina Metricon
    Nimbus Orbital Pinnacle Quasar Ridgeway Solaris""")

# Fields of labelled classes, such as {person}, become spans; all other fields are distractors without labels.
TRAINING = [
    "My name is {person}.", "I am {person} from {company}.", "Please call {person} at {phone}.",
    "Write to {person} at {email}.", "{person} lives at {address}.", "{person} was born on {date}.",
    "You can reach me at {phone} or {email}.", "The {thing} was sent to {address} on {date}.",
    "Contact: {person}, {email}, {phone}", "Dear {person},", "Regards, {person}", "{person} called about the {thing}.",
    "Phone: {phone}", "Email: {email}", "Address: {address}", "Date of birth: {date}", "Name: {person}",
    "Her number is {phone}.", "His mail is {email}.", "We moved to {address} in spring.",
    "The appointment of {person} is on {date}.", "Ask {person} or {person} about the {thing}.",
    "Send the {thing} to {person}, {address}.", "{person} ({email}) has the {thing}.",
    "{person} paid for the {thing} on {date}.", "Since {date} the {thing} belongs to {person}.",
    "If nobody answers at {phone}, try {email}.", "from {email} to {email}", "tel. {phone}, mail {email}",
    "Yesterday {person} met {person} in {town}.", "The guests were {person}, {person} and {person}.",
    "Deliver it to {address} before {date}, please.", "Did {person} say when?", "Thanks, {person}!",
    "I told {person} that the {thing} is ready.", "{email} is no longer in use.", "{phone} is busy all day.",
    "Patient {person}, born {date}, {address}", "Reply to {email} by {date}.", "signed by {person} on {date}",
    "The {thing} costs {price}.", "Order {number} has {count} items.", "Room {count} is on floor {count}.",
    "The meeting starts at {time}.", "{company} sold {number} units of the {thing}.", "Version {version} is out.",
    "The train to {town} leaves at {time}.", "Nobody has seen the {thing} since Monday.",
    "Please check the {thing} again.", "It rained in {town} all week.", "Our {thing} is {count} years old.",
    "The total is {price} for {count} of them.", "Ticket {number} is closed.", "See page {count} of the manual.",
    "{company} opens a new office in {town}.", "The {thing} weighs {count} kg.", "That was in {year}.",
    "About {count} people came to the {thing}.", "We need {count} more for the {thing}.", "Code {code} has expired.",
    "The {thing} of {company} is better.", "Half of the {thing} is missing.", "Is the {thing} still there?",
    "My order {number} is late.", "Invoice {number} is about parcel {number}.", "Call me about {number} of them.",
    "Either way, the {thing} is lost.", "On Monday the {thing} will be back.", "Only the {thing} is new in {town}.",
    "Forward the {thing} to {company}, please.", "They went from {town} to {town}, and not to {town}.",
    "{company} and {company} moved to {town}.", "{town} is near {town}.", "{company} wrote about order {number}.",
    "Our records of the {thing} are old.", "This is the {thing} for {company}.", "{company} asked for the {thing}.",
    "{town} has {count} schools.", "Back in {town} the {thing} broke.", "Records say that {number} is wrong.",
    "For {town} take line {count}.", "I spoke about the {thing} with {company}.",
]
HELD_OUT = [
    "This is {person} speaking.", "Forward all mail for {person} to {address}.", "Call back {phone} before {time}.",
    "{person} wrote from {email} about the {thing}.", "Our records say {date} for {person}.",
    "The {thing} goes to {address}, not to {town}.", "Either {phone} or {email} will do.",
    "On {date} we visited {person} in {town}.", "I spoke with {person} about order {number}.",
    "Mail: {email}, phone: {phone}", "The {thing} arrived at {address} on {date}.",
    "{company} asked {person} for {count} of them.", "Ticket {number} costs {price}.",
    "The {thing} opens at {time} in {town}.", "Only {count} of the {thing} were sold by {company}.",
]
